"""cofill for PyTorch models: `generate`, `fill`, and the parts they are made of. Importing this imports torch; `import cofill` does not."""

from cofill.torch.capture import Collector, SdpaTap, head_mean, resolve_layers
from cofill.torch.denoiser import TorchDenoiser
from cofill.torch.forward import Answer, Forward, Question
from cofill.torch.generate import Output, fill, generate
from cofill.torch.statistics import Proposal, RowNumbers, row_statistics

__all__ = [
    "Answer",
    "Collector",
    "Forward",
    "Output",
    "Proposal",
    "Question",
    "RowNumbers",
    "SdpaTap",
    "TorchDenoiser",
    "fill",
    "generate",
    "head_mean",
    "resolve_layers",
    "row_statistics",
]
