"""Several processes that share the questions of a task, as ``accelerate launch`` and ``torchrun`` start them.

The harness gives rank r the questions r, r + W, r + 2 W, .. and gathers what they say. All it takes is who we are and how objects get
to rank 0; tensors never travel, so this uses gloo, which needs no GPU. (The harness itself asks for torch as soon as there are two.)
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from typing import Any

from cofill import Error

__all__ = ["Ranks"]


class Ranks:
    """Who we are among the processes. Also stands in for the ``accelerator`` that lm_eval 0.4.8 expects of a model.

    Attributes
    ----------
    rank, world_size, local_rank : int
        0, 1 and 0 for a process alone.
    device : str or torch.device
        Where counts are gathered.
    """

    def __init__(self) -> None:
        self.world_size = _count("WORLD_SIZE", 1)
        self.rank = _count("RANK", 0) if self.world_size > 1 else 0
        self.local_rank = _count("LOCAL_RANK", self.rank) if self.world_size > 1 else 0
        self.device: Any = "cpu"
        if self.world_size > 1:
            self._join()

    def _join(self) -> None:
        try:
            import torch.distributed as distributed
        except ModuleNotFoundError as missing:
            raise Error(
                f"WORLD_SIZE is {self.world_size}, and the harness gathers answers with torch, which is not installed; install it, "
                "or run one process"
            ) from missing
        if not distributed.is_initialized():
            distributed.init_process_group("gloo")
            atexit.register(_leave)
        elif distributed.get_backend() == "nccl":
            self.device = f"cuda:{self.local_rank}"

    def gather(self, tensor: Any) -> Any:
        """Everybody's tensor, one after the other."""
        if self.world_size == 1:
            return tensor
        import torch

        parts = [torch.zeros_like(tensor.reshape(-1)) for _ in range(self.world_size)]
        torch.distributed.all_gather(parts, tensor.reshape(-1))
        return torch.cat(parts)

    def gather_object(self, given: Any, dst: int = 0) -> list[Any] | None:
        """Everybody's object, on rank ``dst``."""
        if self.world_size == 1:
            return [given]
        import torch.distributed as distributed

        gathered: list[Any] | None = [None] * self.world_size if self.rank == dst else None
        distributed.gather_object(given, gathered, dst=dst)
        return gathered

    def wait_for_everyone(self) -> None:
        """Until the last one is here."""
        if self.world_size > 1:
            import torch.distributed as distributed

            distributed.barrier()


def _leave() -> None:
    """Ends the group together: whoever leaves while others still speak to it takes them down with an abort at exit."""
    import torch.distributed as distributed

    if not distributed.is_initialized():
        return
    try:
        distributed.monitored_barrier(timeout=timedelta(seconds=60))
    except RuntimeError:
        pass  # somebody is gone already, and says why itself
    distributed.destroy_process_group()


def _count(name: str, default: int) -> int:
    given = os.environ.get(name, str(default))
    try:
        return int(given)
    except ValueError:
        raise Error(f"the environment variable {name} is `{given}`; give a whole number, or unset it") from None
