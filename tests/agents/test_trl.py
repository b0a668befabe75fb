"""TRL's contract for environments, without TRL: what it looks for, calls and pickles.

`tests/integration/llm` has the same with TRL itself.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.trl import component, environment, episode_reward, rollout_func, rows
from tests.agents.worlds import Line, Vault
from tests.support.serving import serving


@pytest.fixture(scope="module")
def vault() -> Iterator[str]:
    with serving(Vault) as url:
        yield url


@pytest.fixture
def factory(vault: str) -> Iterator[Any]:
    made = environment("openenv/Remote-v0", base_url=vault)
    yield made
    made.close()


def test_neither_trl_nor_torch_is_imported() -> None:
    code = "import sys, openenv_gym.trl; print({'trl', 'torch', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


def test_the_class_has_reset_the_reward_and_the_tools(factory: Any) -> None:
    found = dict(inspect.getmembers(type(factory()), inspect.isfunction))
    public = {name for name in found if not name.startswith("_")}
    assert public == {"reset", "get_reward", "guess", "look"}
    assert not inspect.iscoroutinefunction(found["guess"])
    # Before 1.16 members of the object were looked at, whereby properties are evaluated.
    assert {
        name
        for name, _ in inspect.getmembers(factory(), inspect.ismethod)
        if not name.startswith("_")
    } == public


def test_environments_are_of_one_class_that_is_called_after_the_id() -> None:
    made = environment("openenv/TextBlackjack-v0", provider="thread")
    first, second = made(), made()
    assert type(first) is type(second)
    assert type(first).__name__ == "TextBlackjack"
    made.close()


@pytest.mark.parametrize(
    ("release", "owns"), [("1.16.0", True), ("1.8.0", True), ("1.7.2", False), ("0.29.1", False)]
)
def test_the_reward_is_no_tool_of_older_releases(
    factory: Any, monkeypatch: pytest.MonkeyPatch, release: str, owns: bool
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: release)
    assert hasattr(factory(), "get_reward") is owns


def test_a_tool_has_hints_and_a_docstring_for_each_argument(factory: Any) -> None:
    guess = factory().guess
    assert (
        str(inspect.signature(guess))
        == "(digit: int, tone: Literal['kind', 'rude'] = 'kind') -> str"
    )
    assert inspect.getdoc(guess) == (
        "Guess the code.\n\nArgs:\n    digit: The digit.\n    tone: How it is said."
    )
    assert inspect.getdoc(factory().look) == "Look at the vault."


def test_an_episode_as_trl_plays_it(factory: Any) -> None:
    env = factory()
    row = {"prompt": [{"role": "user", "content": "Open."}], "seed": 3, "other": None}
    assert env.reset(**row) == f"The vault hums {Vault.code_of(3) % 2}."
    assert (env.get_reward(), env.done) == (0.0, False)
    assert env.look() == '{"colour": "grey", "dents": [1, 2]}'
    assert env.guess(digit=Vault.code_of(3), tone="rude") == "open"
    assert (env.get_reward(), env.reward, env.done) == (0.0, 0.0, True)
    assert env.episode.components == {"found": 1.0, "polite": -1.0}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "guess: missing a required argument: 'digit'. It takes digit, tone."),
        ({"digit": "x"}, "digit"),
        ({"digit": 11}, "11 is no digit"),
        ({"digit": 1, "how": 2}, "guess: got an unexpected keyword argument 'how'"),
    ],
)
def test_wrong_calls_are_exceptions_that_a_model_can_read(
    factory: Any, arguments: dict[str, Any], text: str
) -> None:
    env = factory()
    env.reset(seed=1)
    with pytest.raises(errors.InvalidActionError) as caught:
        env.guess(**arguments)
    assert text in str(caught.value)
    assert not env.done


def test_a_call_after_the_end_says_that_it_is_over(factory: Any) -> None:
    env = factory()
    env.reset(seed=1)
    env.guess(Vault.code_of(1))
    with pytest.raises(errors.InvalidActionError, match="The episode is over"):
        env.look()


def test_the_members_of_a_group_begin_alike(factory: Any) -> None:
    given = [row for row in rows(3, seed=5, prompt="Open.") for _ in range(4)]
    members = [factory() for _ in given]
    for env, row in zip(members, given, strict=True):
        env.reset(**row)
    for env, row in zip(members, given, strict=True):
        assert env.guess(Vault.code_of(row["seed"])) == "open"
    assert [row["seed"] for row in given] == [5] * 4 + [6] * 4 + [7] * 4


def test_a_dataset_without_seeds_is_warned_of(factory: Any) -> None:
    env = factory()
    with pytest.warns(UserWarning, match="no column `seed`"):
        env.reset(prompt=[])
    env.reset(prompt=[], seed=None)


@pytest.mark.parametrize("seed", ["3", 1.5, True, -1])
def test_a_seed_that_is_none_is_refused(factory: Any, seed: Any) -> None:
    with pytest.raises(errors.InvalidOptionError, match="seed="):
        factory().reset(seed=seed)


def test_columns_are_options_of_the_reset(vault: str) -> None:
    made = environment("openenv/Remote-v0", base_url=vault, columns=["hint"])
    env = made()
    assert env.reset(seed=3, hint=" Hm.", other=1).endswith(". Hm.")
    assert env.reset(seed=3, hint=None).endswith(".")
    made.close()


def test_environments_are_used_in_threads(factory: Any) -> None:
    def play(seed: int) -> float:
        env = factory()
        env.reset(seed=seed)
        for digit in range(10):
            if env.guess(digit) == "open":
                break
        return env.get_reward()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(24))) == [0.5] * 24


def test_the_first_reset_connects_all_environments(vault: str) -> None:
    made = environment("openenv/Remote-v0", base_url=vault)
    members = [made() for _ in range(5)]
    members[0].reset(seed=1)
    assert all(env._session.connected for env in members)
    made.close()


def play_in_child(factory: Any, results: Any) -> None:
    env = factory()
    said = env.reset(seed=3)
    results.put((said, env.guess(Vault.code_of(3)), env.get_reward(), inspect.getdoc(env.guess)))
    factory.close()


def test_a_factory_arrives_in_a_spawned_child(factory: Any) -> None:
    env = factory()
    said = env.reset(seed=3)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=play_in_child, args=(factory, results))
    child.start()
    try:
        assert results.get(timeout=60) == (said, "open", 0.5, inspect.getdoc(env.guess))
    finally:
        child.join(30)
    assert child.exitcode == 0
    results.close()


def test_a_factory_that_was_not_used_yet_can_be_pickled() -> None:
    made = environment("openenv/TextBlackjack-v0", provider="process", rules="openspiel")
    again = pickle.loads(pickle.dumps(made))
    assert repr(again) == "EnvironmentFactory('openenv/TextBlackjack-v0')"


# -- rewards and failures -----------------------------------------------------------------------


def test_components_are_reward_functions(factory: Any) -> None:
    members = [factory() for _ in range(2)]
    for env, tone in zip(members, ("kind", "rude"), strict=True):
        env.reset(seed=3)
        env.guess(Vault.code_of(3), tone)
    polite = component("polite")
    assert polite.__name__ == "polite"
    arguments: dict[str, Any] = {"prompts": [], "completions": [], "environments": members}
    assert polite(**arguments) == [0.0, -1.0]
    assert component("none")(**arguments) == [None, None]
    assert episode_reward(**arguments) == [0.5, 0.0]
    assert episode_reward(environments=[*members, object()]) == [0.5, 0.0, None]
    assert pickle.loads(pickle.dumps(polite))(**arguments) == [0.0, -1.0]


def test_rewards_without_environments_say_what_is_missing() -> None:
    with pytest.raises(errors.ConfigurationError, match="environment_factory"):
        episode_reward(prompts=[])


def test_a_failure_that_trl_shows_to_the_model_ends_the_training() -> None:
    with serving(Line) as url:
        made = environment("openenv/Remote-v0", base_url=url)
        env = made()
        env.reset(seed=1)
        with pytest.raises(errors.EnvironmentFailedError):
            env.act(by=-3)
        for ask in (env.get_reward, lambda: episode_reward(environments=[env])):
            with pytest.raises(errors.EnvironmentFailedError, match="the line broke"):
                ask()
        env.reset(seed=1)
        assert env.get_reward() == 0.0
        made.close()


def test_a_failure_that_is_declared_as_an_end_has_its_reward() -> None:
    with serving(Line) as url:
        made = environment("openenv/Remote-v0", base_url=url, on_failure="end", failure_reward=-5)
        env = made()
        env.reset(seed=1)
        assert env.act(by=-3) == "The episode is over. Its environment failed."
        assert (env.get_reward(), env.done) == (-5.0, True)
        made.close()


# -- rollouts -----------------------------------------------------------------------------------


class Words:
    """A tokenizer with a number for each character."""

    eos_token = "$"
    eos_token_id = ord("$")

    def apply_chat_template(self, messages: Any, *, tokenize: bool, **options: Any) -> str:
        assert not tokenize
        text = "".join(f"<{each['role'][0]}>{each['content']}$\n" for each in messages)
        return text + ("<a>" if options["add_generation_prompt"] else "")

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(character) for character in text]}

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids)).replace("$", "")


class Trainer:
    """What `rollout_func` wants of a trainer."""

    class model:
        training = True

    class accelerator:
        process_index = 0
        num_processes = 1

    num_generations = 2
    num_generations_eval = 1
    max_completion_length = 60
    processing_class = Words()
    chat_template = None
    chat_template_kwargs: dict[str, Any] = {}

    def __init__(self) -> None:
        self.asked: list[int] = []

    def _generate_single_turn(
        self, prompts: Any, images: Any, fields: Any, num_generations: int
    ) -> Any:
        self.asked.append(len(prompts))
        ids = [[ord("0"), ord("$")] for _ in prompts]
        return ids, [[-0.5, -0.1] for _ in prompts]


def test_a_rollout_is_tokens_and_a_mask() -> None:
    with serving(Line) as url:
        rollout = rollout_func("openenv/Remote-v0", base_url=url, seed=20)
        trainer = Trainer()
        prompts = [[{"role": "user", "content": "Walk. "}] for _ in range(4)]
        came = rollout(prompts, trainer)
        rollout.close()
    texts = ["".join(map(chr, ids)) for ids in came["prompt_ids"]]
    assert texts[0].startswith("<u>Walk. Walk to 0.\nat: ")
    # The members of a group play the same episode, the groups different ones.
    assert texts[0] == texts[1] != texts[2] == texts[3]
    assert [episode.seed for episode in came["episode"]] == [20, 20, 21, 21]
    at = texts[0].partition("at: ")[2].partition("$")[0]
    said = f"\n<u>at: {at}$\n<a>"
    completion = "".join(map(chr, came["completion_ids"][0]))
    assert completion == f"0${said}0${said}0$"
    mask = came["env_mask"][0]
    assert [mask[0], mask[1], mask[2], len(mask), sum(mask)] == [1, 1, 0, len(completion), 6]
    assert [len(each) for each in came["logprobs"]] == [len(each) for each in came["env_mask"]]
    assert trainer.asked == [4, 4, 4]
    assert episode_reward(episode=came["episode"]) == [-3.0] * 4


def test_further_batches_are_further_seeds_and_use_the_same_sessions() -> None:
    with serving(Line) as url:
        rollout = rollout_func("openenv/Remote-v0", base_url=url, max_replies=1)
        prompts = ["Walk. "] * 4
        first, second = rollout(prompts, Trainer()), rollout(prompts, Trainer())
        rollout.close()
    assert [each.seed for each in second["episode"]] == [2, 2, 3, 3]
    assert [each.turns for each in first["episode"]] == [1] * 4
    assert not any(each.done for each in second["episode"])


def test_a_rollout_stops_where_there_is_no_room_left() -> None:
    with serving(Line) as url:
        rollout = rollout_func("openenv/Remote-v0", base_url=url, unfinished_reward=-9)
        trainer = Trainer()
        trainer.max_completion_length = 8
        came = rollout(["Walk. "] * 2, trainer)
        rollout.close()
    assert [len(ids) for ids in came["completion_ids"]] == [2, 2]
    assert episode_reward(episode=came["episode"]) == [-10.0, -10.0]


def test_each_process_has_its_share_of_the_groups() -> None:
    with serving(Line) as url:
        seeds = []
        for index in range(2):

            class Other(Trainer):
                class accelerator:
                    process_index = index
                    num_processes = 2

            rollout = rollout_func("openenv/Remote-v0", base_url=url, max_replies=1)
            for _ in range(2):
                seeds.append([each.seed for each in rollout(["-"] * 3, Other())["episode"]])
            rollout.close()
    assert seeds == [[0, 0, 1], [3, 3, 4], [1, 2, 2], [4, 5, 5]]


def test_only_the_tools_that_were_chosen_are_methods(vault: str) -> None:
    made = environment("openenv/Remote-v0", base_url=vault, tools=["look"])
    env = made()
    assert [name for name in dir(env) if name in ("guess", "look")] == ["look"]
    made.close()
