"""torch's private doors that a recording needs, in one place: they may move between versions."""

from typing import Any

import torch

C: Any = torch._C
is_functional: Any = vars(torch)["_is_functional_tensor"]
TensorClass: Any = torch.Tensor  # its properties as descriptors: TensorClass.grad.__get__
