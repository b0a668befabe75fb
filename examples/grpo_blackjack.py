"""Train a language model to play blackjack by GRPO, with TRL, on a CPU, in a minute or two.

    pip install 'openenv-gym[trl]' ./envs/openspiel_env
    python examples/grpo_blackjack.py                       # the model calls a tool
    python examples/grpo_blackjack.py --adapter rollout     # what the model says is its action

The model is tiny and starts from random numbers; so does its tokenizer, in which a whole call is
one token: else nobody who knows nothing would ever make one. With a model that can talk, nothing
changes but the two of them. ``--provider docker`` plays in containers, if the rubric is there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any


os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from openenv_gym.trl import component, environment, episode_reward, rollout_func, rows


ENV_ID = "openenv/TextBlackjack-v0"
RUBRIC = "blackjack_rubric:make_rubric"
PARTS = ("outcome", "legal")
CALL = '<tool_call>{{"name": "play", "arguments": {{"action": "{}"}}}}</tool_call>'

CHAT = """\
{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}{{ '<tool_call>' }}\
{{- {"name": call.function.name, "arguments": call.function.arguments} | tojson }}\
{{- '</tool_call>' }}{% endfor %}
{{- '<|im_end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close": "<|im_end|>", "content": "text"},
    },
}


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run the command line; return what the last steps were like."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapter", choices=("environment", "rollout"), default="environment")
    parser.add_argument("--provider", default="process", help="default: %(default)s")
    parser.add_argument("--servers", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=40, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=7, help="default: %(default)s")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=FutureWarning)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # of a model this small a second thread would only wait
    # The server looks for the rubric where this program would.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    how: dict[str, Any] = {
        "provider": options.provider,
        "num_servers": options.servers,
        "rubric": RUBRIC,
        "unfinished_reward": -1.0,  # a model that does not play could not lose
        "refused_reward": -0.05,  # for calls after the end, say
    }
    parts = [component(name) for name in PARTS]
    adapter: Any
    if options.adapter == "environment":
        adapter = environment(ENV_ID, tools=["play"], **how)
        taken = {"environment_factory": adapter, "reward_funcs": parts}
        weights = [0.0, 0.0]  # logged alone; what the environment gives comes in addition
    else:
        adapter = rollout_func(ENV_ID, **how)
        taken = {"rollout_func": adapter, "reward_funcs": [episode_reward, *parts]}
        weights = [1.0, 0.0, 0.0]
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = GRPOTrainer(
                model=make_model(tokenizer := make_tokenizer()),
                processing_class=tokenizer,
                train_dataset=Dataset.from_list(rows(64 * options.steps, prompt="Play.")),
                args=make_config(folder, options.steps, options.seed, weights),
                **taken,
            )
            trainer.train()
    finally:
        adapter.close()
    return report(trainer.state.log_history)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of the words that this game has; it gives back every text as it was."""
    whole = Tokenizer(models.WordLevel(unk_token="<unk>"))
    words = pre_tokenizers.Split(Regex(r" ?\w+| ?[^\w\s]|\s"), behavior="isolated")
    whole.pre_tokenizer, whole.decoder = words, decoders.Fuse()
    special = ["<unk>", "<|pad|>", "<|im_start|>", "<|im_end|>"]
    whole.train_from_iterator(_sentences(), trainers.WordLevelTrainer(special_tokens=special))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=whole,
        unk_token="<unk>",
        pad_token="<|pad|>",
        eos_token="<|im_end|>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([CALL.format(name) for name in ("hit", "stand")])
    tokenizer.chat_template = CHAT
    tokenizer.response_template = RESPONSE
    return tokenizer


def _sentences() -> list[str]:
    cards = ["ace", *map(str, range(2, 31))]
    return [
        "user\nassistant\ntool\nPlay.\nYou are playing blackjack against the dealer.\n",
        *(f"Your cards: {card}, {card} (total {card}, an ace counts 11).\n" for card in cards),
        "The dealer shows: ace.\nAnswer with one word: hit or stand.\nhit\nstand\n",
        "The dealer's cards: ace.\nThe game is over: you win.\nThe game is over: you lose.\n",
        "The game is over: a draw.\nThe game is over: you have forfeited it.\n",
        "' is no legal action.",
    ]


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return a model that knows nothing."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def make_config(folder: str, steps: int, seed: int, weights: list[float]) -> GRPOConfig:
    """Return the settings of the trainer: eight groups of eight games a step."""
    return GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=64,
        num_generations=8,
        max_completion_length=64,
        max_tool_calling_iterations=4,
        max_steps=steps,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        reward_weights=weights,
        beta=0.0,
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def report(history: list[dict[str, Any]]) -> dict[str, float]:
    """Print what the steps were like at first and at last; return the latter."""
    logged = [entry for entry in history if "reward" in entry]
    few = max(1, len(logged) // 8)
    names = ["reward", *(f"rewards/{name}/mean" for name in PARTS), "tools/failure_frequency"]
    print(f"{'mean of':28}{f'first {few} steps':>16}{f'last {few} steps':>16}")
    last = {}
    for name in (each for each in names if each in logged[0]):
        means = []
        for chosen in (logged[:few], logged[-few:]):
            values = [entry[name] for entry in chosen if entry.get(name) == entry.get(name)]
            means.append(sum(values) / max(len(values), 1))
        print(f"{name:28}{means[0]:16.3f}{means[1]:16.3f}", flush=True)
        last[name] = means[1]
        last[f"first {name}"] = means[0]
    return last


if __name__ == "__main__":
    main()
