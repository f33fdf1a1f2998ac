"""What the segment pass is made of: units and their order, trials, the merging, decisions of a person, reasons."""
