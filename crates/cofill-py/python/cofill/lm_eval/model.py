"""The model that the harness asks: ``cofill`` in its registry."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

# Before ours is registered: the harness of 2026 imports its own models only while its registry is empty.
import lm_eval.models  # noqa: F401
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from tqdm import tqdm

from cofill import Error
from cofill.likelihood import ChainRule, DreamEstimate, Estimator, LladaEstimate, Plan, estimate, strata_of
from cofill.lm_eval.answers import answer, until_of, wrapper_of
from cofill.lm_eval.backends import Batch, Generated, open_backend
from cofill.lm_eval.options import Options
from cofill.lm_eval.ranks import Ranks

__all__ = ["CofillLM"]

log = logging.getLogger("cofill.lm_eval")

#: Positions after a prompt when nobody says: the harness's own default, and those of the published wrappers.
USUAL_LENGTH = {"plain": 256, "llada": 1024, "dream": 128}
#: Dream's wrapper cuts longer texts of a likelihood.
DREAM_MAX_LENGTH = 2048
#: The options that say how a canvas is filled.
SETTINGS = (
    "sampler",
    "block",
    "temperature",
    "top_p",
    "top_k",
    "cfg",
    "max_nfe",
    "logits_eos_inf",
    "confidence_eos_eot_inf",
    "attention_of_source",
)
#: The options that change no answer, or that the backend tells better.
UNDECIDING = ("out", "traces", "threads", "batch_size", "max_batch_size", "device", "tokenizer")
#: Commits the surest position alone: how an answer is decoded to see whether it is the one that comes out.
SUREST_FIRST = "topk:1"


@dataclass(frozen=True)
class Asked:
    """A request, and which question it is, whoever asks it: `doc` and `choice` do not depend on batch, rank or ``--limit``."""

    place: int  # in the list that was given
    request: Instance
    doc: int
    choice: int
    repeat: int

    def noise_seed(self, root: int) -> int:
        """The seed of its decode; with the first repeat that of ``cofill eval``, so that draws are equal, too."""
        return (root ^ self.doc * 0x9E37_79B9_7F4A_7C15 ^ self.repeat * 0xBF58_476D_1CE4_E5B9) & 0xFFFF_FFFF_FFFF_FFFF

    def mask_seed(self, root: int) -> list[int]:
        """The branch of randomness that its masks are drawn from. Asked again, the answer is the same."""
        return [root, self.doc, self.choice]

    def __str__(self) -> str:
        return f"question {self.doc} of {self.request.task_name or 'a task'}"


@register_model("cofill")
class CofillLM(LM):
    """A masked diffusion model under lm-evaluation-harness.

    Parameters
    ----------
    pretrained
        The model; see :class:`~cofill.lm_eval.options.Options`, which lists all others. Unknown ones are errors.

    Examples
    --------
    >>> from lm_eval.api.instance import Instance
    >>> lm = CofillLM("tiny-llada", sampler="topk:4+ad", length=8)
    >>> ask = Instance("generate_until", {}, ("3+4=", {"until": [";"]}), 0, ("sums", 0, 1))
    >>> isinstance(lm.generate_until([ask])[0], str)
    True
    """

    def __init__(self, pretrained: Any = "tiny-llada", **model_args: Any) -> None:
        super().__init__()
        self.options = options = Options.parse({"pretrained": pretrained, **model_args})
        strata_of(options.mc_num, options.mc_stratum)
        self._ranks = Ranks()
        self._rank, self._world_size, self._device = self._ranks.rank, self._ranks.world_size, self._ranks.device
        self._backend = backend = open_backend(options, self._ranks.local_rank)
        self._text = backend.text
        self._wrapper = wrapper_of(options.compat, backend.family)
        self._bos = True if options.bos is None and self._wrapper == "dream" else options.bos
        if self._bos and backend.bos_id is None:
            raise Error(f"`{backend.name}` names no beginning-of-text token, and prompts begin with one; give bos=false")
        # BERT and its relatives have a token around every text, unless somebody says otherwise.
        self._frame = backend.frame if options.bos is not False else None
        is_instruct = options.compat == "fast-dllm" and "instruct" in f"{options.pretrained} {backend.name}".lower()
        self._chat = options.chat or is_instruct
        self._estimator = self._choose_estimator()
        if options.out:
            self._out = options.out if self._world_size == 1 else f"{options.out}.rank{self._rank}"
            _create(self._out)
        if options.traces and self._world_size == 1 and os.path.isdir(options.traces) and os.listdir(options.traces):
            raise Error(f"traces is `{options.traces}`, which holds files; name another folder, or empty it")
        self._spent: Counter[str] = Counter()
        self._warned: set[str] = set()
        if options.compat == "plain" and backend.family in ("llada", "dream"):
            log.info(
                "compat=plain ends answers at the first end of text or turn; `cofill eval` and the published scores follow compat=%s",
                backend.family,
            )

    # What the harness asks.

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Fills the canvas behind every prompt and cuts the text at its stop strings. Answers are in the order of the requests."""
        work: list[tuple[int, list[int], Asked]] = []
        for asked in _identified(requests):
            prompt, arguments = asked.request.args
            self._warn_of_sampling(arguments)
            work.append((self._length(arguments), self._prompt(prompt, asked), asked))
        # Equal lengths share a batch; the longest come first, so that what does not fit shows at once.
        work.sort(key=lambda item: (-item[0], -len(item[1])))
        answers: list[str] = [""] * len(work)
        with self._progress(len(work), "Generating", disable_tqdm) as bar:
            for length, batch in self._batches(work):
                seeds = [asked.noise_seed(self.options.seed) for _, asked in batch]
                prompts = [prompt for prompt, _ in batch]
                together = Batch(prompts, seeds, length, self._settings())
                for (_, asked), generated in zip(batch, self._backend.generate(together)):
                    text = self._answer(asked, generated)
                    answers[asked.place] = text
                    self._keep(asked, generated, text)
                    self.cache_hook.add_partial("generate_until", asked.request.args, text)
                    bar.update()
        if work:
            log.info(
                "%d canvases so far, %.2f forwards each", self._spent["generations"], self._spent["forwards"] / self._spent["generations"]
            )
        return answers

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Estimates log p(continuation | context), and with ``is_check_greedy`` whether decoding surest first gives the continuation."""
        if self.options.chat:
            raise Error("chat=true puts whole prompts through the template, and likelihoods are of answers; use --apply_chat_template")
        pairs = [(asked, *self._encode_pair(*asked.request.args)) for asked in _identified(requests)]
        pairs.sort(key=lambda pair: -len(pair[1]) - len(pair[2]))
        is_greedy = self._greedy([(prefix, self._continuation(target)) for _, prefix, target in pairs])
        answers: list[tuple[float, bool]] = [(0.0, False)] * len(pairs)
        plans = (self._plan(asked, prefix, target) for asked, prefix, target in pairs)
        with self._progress(len(pairs), "Estimating", disable_tqdm) as bar:
            values = estimate(plans, self._backend.score, self.batch_size)
            for (asked, *_), greedy, value in zip(pairs, is_greedy, values):
                answers[asked.place] = (value, greedy)
                self.cache_hook.add_partial("loglikelihood", asked.request.args, answers[asked.place])
                bar.update()
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """Estimates log p of whole texts, in the same way. One that the model cannot hold is taken in pieces, each given the token before."""
        if self.options.log_type in ("btf", "union"):
            raise Error(f"log_type is `{self.options.log_type}`, which scores contexts, and a whole text has none; give ftb or ar_ftb")
        identified = list(_identified(requests))
        pieces = [(asked, *piece) for asked in identified for piece in self._windows(asked.request.args[0])]
        plans = (self._plan(asked, prefix, target, number) for asked, number, prefix, target in pieces)
        answers = [0.0] * len(identified)
        with self._progress(len(pieces), "Estimating", disable_tqdm) as bar:
            for (asked, *_), value in zip(pieces, estimate(plans, self._backend.score, self.batch_size)):
                answers[asked.place] += value
                bar.update()
        for asked in identified:
            self.cache_hook.add_partial("loglikelihood_rolling", asked.request.args, answers[asked.place])
        return answers

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """A chat in the words that the model was trained on."""
        if self._chat:
            raise Error("prompts would go through the chat template twice; leave out chat=true, or --apply_chat_template")
        return self._backend.chat(chat_history, add_generation_prompt)

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The chat template, for the file of results."""
        return self._backend.chat_template() or ""

    @property
    def tokenizer_name(self) -> str:
        """What the harness keys its caches of prompts by."""
        return self._backend.name.replace("/", "__")

    @property
    def max_length(self) -> int:
        """The most positions that the model holds."""
        return self._backend.context

    @property
    def batch_size(self) -> int:
        return int(self.options.batch_size)

    def get_model_info(self) -> dict[str, Any]:
        """What decides the answers, and what they cost; lands in the file of results."""
        import cofill

        decides = {name: value for name, value in asdict(self._plain_options()).items() if name not in UNDECIDING}
        spent: dict[str, float] = dict(self._spent)
        if spent.get("generations"):
            spent["nfe_per_generation"] = spent["forwards"] / spent["generations"]
            spent["tokens_per_forward"] = spent["tokens"] / max(1, spent["forwards"])
        about = {
            "version": getattr(cofill, "__version__", None),
            "wrapper": self._wrapper,
            "begins_with_bos": bool(self._bos),
            "estimator": type(self._estimator).__name__,
            "spent_on_this_rank": spent,
        }
        return {"cofill": {**decides, **self._backend.about(), **about}}

    # Several processes: 0.4.8 asks an accelerator, later ones the model.

    @property
    def accelerator(self) -> Ranks:
        return self._ranks

    @property
    def device(self) -> Any:
        return self._device

    def all_gather(self, tensor: Any) -> Any:
        return self._ranks.gather(tensor)

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        return self._ranks.gather_object(obj, dst)

    def barrier(self) -> None:
        self._ranks.wait_for_everyone()

    # Generation.

    def _prompt(self, prompt: str, asked: Asked) -> list[int]:
        if self._chat:
            prompt = self._backend.chat([{"role": "user", "content": prompt}], True)
        tokens = self._text.encode(prompt)
        length = self._length(asked.request.args[1])
        held, around = self._backend.context, 2 if self._frame else int(bool(self._bos))
        if around + len(tokens) + length > held:
            raise Error(
                f"the prompt of {asked} has {len(tokens)} tokens and {length} are to be generated, "
                f"but `{self._backend.name}` holds {held}; "
                "lower length, or ask with fewer examples (--num_fewshot)"
            )
        return tokens

    def _length(self, arguments: dict[str, Any]) -> int:
        asked = arguments.get("max_gen_toks") if self._wrapper == "plain" else None
        return self.options.length or int(asked or USUAL_LENGTH[self._wrapper])

    def _settings(self) -> dict[str, Any]:
        """How canvases are filled: the options that say it, where they say anything."""
        given = {name: getattr(self.options, name) for name in SETTINGS}
        usual = {name: getattr(Options, name) for name in SETTINGS}
        settings = {name: value for name, value in given.items() if name == "sampler" or value != usual[name]}
        return settings if self._bos is None else {**settings, "bos": self._bos}

    def _batches(self, work: list[tuple[int, list[int], Asked]]) -> Iterator[tuple[int, list[tuple[list[int], Asked]]]]:
        """Runs of one length, cut into batches."""
        batch: list[tuple[list[int], Asked]] = []
        for i, (length, prompt, asked) in enumerate(work):
            batch.append((prompt, asked))
            is_last = i + 1 == len(work) or work[i + 1][0] != length
            if is_last or len(batch) == self.batch_size:
                yield length, batch
                batch = []

    def _answer(self, asked: Asked, generated: Generated) -> str:
        until = [] if self.options.escape_until else until_of(asked.request.args[1])
        # Fast-dLLM does not cut what an instruct model answers to HumanEval.
        task_id = asked.request.doc.get("task_id") if isinstance(asked.request.doc, dict) else None
        if self.options.compat == "fast-dllm" and self._chat and self._wrapper == "llada" and str(task_id).lower().startswith("humaneval"):
            return self._text.decode(generated.tokens, skip_special=True)
        return answer(self._wrapper, generated.tokens, until, self._text)

    def _keep(self, asked: Asked, generated: Generated, text: str) -> None:
        self._spent.update(generations=1, forwards=generated.nfe, tokens=len(generated.tokens))
        name = f"{asked.request.task_name or 'task'}-{asked.doc}" + (f"-{asked.repeat}" if asked.repeat else "")
        if self.options.traces:
            os.makedirs(self.options.traces, exist_ok=True)
            generated.trace.write(os.path.join(self.options.traces, f"{name}.jsonl"))
        if self.options.out:
            record = {
                "case_id": name,
                "task": asked.request.task_name,
                "doc_id": asked.doc,
                "repeat": asked.repeat,
                "prompt_sha256": hashlib.sha256(asked.request.args[0].encode()).hexdigest(),
                "tokens": generated.tokens,
                "raw_output": self._text.decode(generated.tokens),
                "text": text,
                "nfe": generated.nfe,
            }
            with open(self._out, "a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def _warn_of_sampling(self, arguments: dict[str, Any]) -> None:
        if arguments.get("do_sample") and self.options.temperature == 0 and "sampling" not in self._warned:
            self._warned.add("sampling")
            log.warning(
                "the task asks for random draws (do_sample), and temperature is 0; give temperature= in model_args, "
                "from where all settings but the stop strings come"
            )

    # Likelihood.

    def _choose_estimator(self) -> Estimator:
        mc_num, stratum, log_type = self.options.mc_num, self.options.mc_stratum, self.options.log_type
        if log_type == "ar_ftb":
            return ChainRule()
        if self._wrapper == "dream":
            return DreamEstimate(mc_num, stratum, log_type or "ftb")
        if log_type is not None:
            raise Error(f"log_type is `{log_type}`, which is of Dream's estimate, and `{self._backend.name}` gets LLaDA's; leave it out")
        return LladaEstimate(mc_num, stratum)

    def _plan(self, asked: Asked, prefix: list[int], target: list[int], piece: int = 0) -> Plan:
        plan = self._estimator.plan(prefix, target, self._backend.mask_id, [*asked.mask_seed(self.options.seed), piece])
        if self._frame:
            plan = Plan([replace(query, tokens=np.append(query.tokens, self._frame[1])) for query in plan.queries], plan.weights)
        self._spent.update(likelihoods=1, scored_canvases=len(plan.queries))
        return plan

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Tokens of a context and of what follows. Spaces at the border belong to what follows, where tokenizers expect them."""
        bare = context.rstrip()
        context, continuation = bare, context[len(bare) :] + continuation
        prefix = self._text.encode(context)
        target = self._text.encode(context + continuation)[len(prefix) :]
        beginning = self._beginning(is_empty=not prefix)
        prefix = prefix if prefix[:1] == beginning else beginning + prefix  # a chat template may have written it already
        if self._wrapper == "dream":
            target += self._end()
        return self._cut_left(prefix, target)

    def _beginning(self, is_empty: bool) -> list[int]:
        """The beginning of text, if prompts have one; the harness also puts one before an answer to nothing at all."""
        if self._frame:
            return [self._frame[0]]
        if self._bos:
            return [self._backend.bos_id]  # type: ignore[list-item]
        if is_empty and self._wrapper == "plain":
            either = self._backend.bos_id if self._backend.bos_id is not None else self._text.eos_id
            return [] if either is None else [either]
        return []

    def _end(self) -> list[int]:
        """Dream's wrapper ends every text; the end itself is never masked."""
        return [] if self._text.eos_id is None else [self._text.eos_id]

    def _continuation(self, target: list[int]) -> list[int]:
        return target[: len(target) - len(self._end())] if self._wrapper == "dream" else target

    def _cut_left(self, prefix: list[int], target: list[int]) -> tuple[list[int], list[int]]:
        held = self._held()
        excess = len(prefix) + len(target) - held
        if excess <= 0:
            return prefix, target
        if self._wrapper == "llada":
            raise Error(
                f"a text has {len(prefix) + len(target)} tokens, but `{self._backend.name}` holds {held}; "
                "shorten it, or give compat=plain, which cuts its beginning"
            )
        if "cut" not in self._warned:
            self._warned.add("cut")
            log.warning("texts of more than %d tokens lose their beginning; this one has %d", held, held + excess)
        return prefix[excess:], target[-held:]

    def _held(self) -> int:
        usual = DREAM_MAX_LENGTH if self._wrapper == "dream" else self._backend.context
        return min(self.options.max_length or usual, self._backend.context) - int(self._frame is not None)

    def _windows(self, text: str) -> Iterator[tuple[int, list[int], list[int]]]:
        """A text in pieces that the model holds: number, what comes before, tokens."""
        tokens = self._text.encode(text)
        before = self._beginning(is_empty=True)
        end = self._end() if self._wrapper == "dream" else []
        number = 0
        while tokens:
            most = max(1, self._held() - len(before) - len(end))
            piece, tokens = tokens[:most], tokens[most:]
            yield number, before, piece + end
            before, number = piece[-1:], number + 1

    def _greedy(self, pairs: list[tuple[list[int], list[int]]]) -> list[bool]:
        """Whether decoding one token at a time, surest first, gives each target."""
        if not self.options.is_check_greedy:
            return [False] * len(pairs)
        # Targets of one length share batches, nothing else.
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1]))
        found = [True] * len(pairs)  # what is empty comes out
        groups: dict[int, list[int]] = {}
        for i in order:
            groups.setdefault(len(pairs[i][1]), []).append(i)
        for length, members in groups.items():
            for first in range(0, len(members) if length else 0, self.batch_size):
                some = members[first : first + self.batch_size]
                settings = {"sampler": SUREST_FIRST, "cfg": self.options.cfg}
                if not self._frame:
                    settings["bos"] = False  # the prefix has its beginning
                together = Batch([pairs[i][0] for i in some], [0] * len(some), length, settings)
                for i, generated in zip(some, self._backend.generate(together)):
                    found[i] = generated.tokens == pairs[i][1]
        return found

    def _plain_options(self) -> Options:
        """The options with names in place of open models."""
        given = {name: getattr(self.options, name) for name in self.options.__dataclass_fields__}
        return Options(**{**given, "pretrained": self._backend.name, "sampler": str(given["sampler"]), "tokenizer": None})

    def _progress(self, total: int, what: str, disabled: bool) -> tqdm:
        return tqdm(total=total, desc=what, disable=disabled or self._rank != 0)


def _identified(requests: Sequence[Instance]) -> Iterator[Asked]:
    """Requests with the numbers that the harness gives their questions; rank r is given questions r, r + W, .. and keeps their numbers."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for place, request in enumerate(requests):
        # Whoever calls without the harness has no numbers; the place in the list must do.
        doc = place if request.doc_id is None else int(request.doc_id)
        key = (request.task_name, request.request_type, doc, request.idx)
        yield Asked(place, request, doc, int(request.idx or 0), seen[key])
        seen[key] += 1


def _create(path: str) -> None:
    try:
        open(path, "x", encoding="utf-8").close()
    except FileExistsError:
        raise Error(f"out is `{path}`, which exists; name another file, or remove it") from None
    except OSError as error:
        raise Error(f"out is `{path}`, which cannot be written: {error.strerror}") from None
