"""Functions with the signatures that people's scripts already call: one import changes, and the sampler may.

>>> from cofill.compat.llada import generate                  # in place of LLaDA's generate.py
>>> from cofill.compat.dream import diffusion_generate        # in place of model.diffusion_generate
"""

__all__ = ["llada", "dream"]
