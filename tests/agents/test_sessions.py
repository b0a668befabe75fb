"""Episodes of agents on servers: seeds, tools, failures, many at once."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.agents import AgentPool, Trajectory, play, play_all
from openenv_gym.client.background import run_blocking
from tests.agents.worlds import Line, Vault
from tests.support.fake_openenv import FakeOpenEnv
from tests.support.ports import reserved_port
from tests.support.serving import serving
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def vault() -> Iterator[str]:
    with serving(Vault) as url:
        yield url


def pool_of(url: str | list[str], **options: Any) -> AgentPool:
    return AgentPool("openenv/Remote-v0", base_url=url, **options)


async def guesser(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Guesses one digit after the other."""
    digit = sum(message["role"] == "assistant" for message in messages)
    call = {
        "id": f"call-{digit}",
        "function": {"name": "guess", "arguments": f'{{"digit": {digit}}}'},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_an_episode_of_tools(vault: str) -> None:
    with pool_of(vault) as pool:
        session = pool.session()
        assert session.episode is None
        begun = run_blocking(session.begin(seed=3, options={"hint": " Hm."}))
        assert begun.text == f"The vault hums {Vault.code_of(3) % 2}. Hm."
        assert run_blocking(session.call("look", {})).text == '{"colour": "grey", "dents": [1, 2]}'
        turn = run_blocking(
            session.call("guess", {"digit": (Vault.code_of(3) + 1) % 10, "tone": "rude"})
        )
        assert (turn.text, turn.reward, turn.done, turn.refused) == ("shut", -0.5, False, False)
        turn = run_blocking(session.call("guess", {"digit": Vault.code_of(3)}))
        assert (turn.text, turn.reward, turn.done) == ("open", 0.5, True)
        episode = session.episode
        assert episode is not None
        assert (episode.turns, episode.reward, episode.score, episode.done) == (3, 0.0, 0.0, True)
        assert episode.components == {"found": 1.0, "polite": -1.0}
        assert run_blocking(session.call("look", {})).text == "The episode is over."
        assert (episode.turns, episode.refused, episode.reward) == (4, 1, 0.0)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("fly", {}, "There is no tool 'fly'. There are guess, look."),
        ("guess", {}, "The call of guess lacks 'digit'. It takes digit, tone."),
        ("guess", {"digit": 1, "up": 2}, "The call of guess has 'up'"),
        ("guess", {"digit": "one"}, "digit"),
        ("guess", {"digit": 1, "tone": "loud"}, "'kind' or 'rude'"),
        ("guess", {"digit": 12}, "12 is no digit"),
    ],
)
def test_what_an_agent_does_wrong_is_told_to_it(
    vault: str, name: str, arguments: dict[str, Any], text: str
) -> None:
    with pool_of(vault) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=1))
        turn = run_blocking(session.call(name, arguments))
        assert text in turn.text
        assert (turn.refused, turn.done, turn.reward) == (True, False, 0.0)
        assert session.episode is not None
        assert session.episode.refused == 1
        assert run_blocking(session.call("guess", {"digit": Vault.code_of(1)})).done


def test_what_was_refused_earns_what_the_rules_say(vault: str) -> None:
    with pool_of(vault, refused_reward=-0.25) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=1))
        for name, arguments in (("fly", {}), ("guess", {"digit": 12}), ("guess", {"digit": "x"})):
            assert run_blocking(session.call(name, arguments)).reward == -0.25
        run_blocking(session.call("guess", {"digit": Vault.code_of(1)}))
        run_blocking(session.call("look", {}))
        assert session.score == 0.5 - 4 * 0.25


def test_nothing_can_be_done_before_an_episode_begins(vault: str) -> None:
    with pool_of(vault) as pool, pytest.raises(errors.ResetNeededError, match="No episode"):
        run_blocking(pool.session().call("look", {}))


def test_actions_are_tools_and_words_where_there_are_no_others() -> None:
    with serving(Line) as url, pool_of(url) as pool:
        session = pool.session()
        first = run_blocking(session.begin(seed=5)).text
        assert first.startswith("Walk to 0.\nat: ")
        at = int(first.rpartition(" ")[2])
        assert run_blocking(session.call("act", {"by": 2})).text == f"at: {at + 2}"
        turn = run_blocking(session.answer("-2"))
        assert (turn.text, turn.reward) == (f"at: {at}", -1.0)
        refused = run_blocking(session.answer("seven steps"))
        assert refused.refused
        assert "Answer with the number alone" in refused.text
        assert run_blocking(session.answer("9")).refused
        assert run_blocking(session.answer('{"by": 0}')).done


def test_an_episode_is_truncated_after_its_turns_and_pays_for_what_is_left(vault: str) -> None:
    with pool_of(vault, max_turns=2, unfinished_reward=-2.0) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=1))
        assert session.score == -2.0
        run_blocking(session.call("look", {}))
        turn = run_blocking(session.call("fly", {}))
        assert (turn.done, turn.truncated) == (True, True)
        assert turn.text.endswith("The episode is over.")
        assert session.score == 0.0


def test_the_members_of_a_group_play_the_same_episode(vault: str) -> None:
    async def group() -> list[Trajectory]:
        async with pool_of(vault) as pool:
            return await play_all(pool, guesser, [4, 4, 4, 8, None], mode="tools", concurrency=5)

    played = asyncio.run(group())
    assert {each.messages[0]["content"] for each in played[:3]} == {
        f"The vault hums {Vault.code_of(4) % 2}."
    }
    assert [each.episode.turns for each in played[:4]] == [Vault.code_of(4) + 1] * 3 + [
        Vault.code_of(8) + 1
    ]
    assert all(each.reward == 0.5 for each in played)


def test_a_trajectory_is_a_conversation_with_a_mask(vault: str) -> None:
    async def one() -> Trajectory:
        async with pool_of(vault) as pool:
            session = await pool.asession()
            prompt = [
                {"role": "system", "content": "Be quick."},
                {"role": "user", "content": "Open it. "},
            ]
            return await play(session, guesser, seed=4, prompt=prompt, mode="tools", max_replies=2)

    played = asyncio.run(one())
    assert Vault.code_of(4) > 1
    assert [message["role"] for message in played.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert played.messages[1]["content"] == f"Open it. The vault hums {Vault.code_of(4) % 2}."
    assert played.messages[3] == {
        "role": "tool",
        "name": "guess",
        "content": "shut",
        "tool_call_id": "call-0",
    }
    assert played.mask == [False, False, True, False, True, False]
    assert played.tools[0]["function"]["name"] == "guess"
    assert not played.episode.done


@pytest.mark.parametrize("arguments", ["{not json", "[1]", 7, '{"digit":' + "[" * 100_000])
def test_arguments_that_are_no_json_are_told_to_the_model(vault: str, arguments: Any) -> None:
    async def policy(messages: Any, tools: Any) -> dict[str, Any]:
        return {"tool_calls": [{"function": {"name": "guess", "arguments": arguments}}]}

    async def one() -> Trajectory:
        async with pool_of(vault) as pool:
            return await play(pool.session(), policy, mode="tools", max_replies=1)

    assert (
        asyncio.run(one()).messages[-1]["content"] == "The arguments of guess are no JSON object."
    )


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "value",
    ["\ud83d", {"\ud83d": 1}, math.nan, -math.inf, 10**4000, -(10**40_000), nested(400)],
    ids=["surrogate", "key", "nan", "infinity", "big", "bigger", "nested"],
)
def test_what_cannot_be_sent_is_refused_and_ends_nothing(vault: str, value: Any) -> None:
    with FakeOpenEnv(schema=DROP) as server, serving(Line) as line:
        for url, name, wrong, right in (
            (vault, "guess", {"digit": value}, {"digit": Vault.code_of(1)}),
            (line, "act", {"by": value}, {"by": 1}),
            (server.url, "act", {"column": {"\ud83d": value}}, {"column": 2}),
        ):
            with pool_of(url) as pool:
                session = pool.session()
                run_blocking(session.begin(seed=1))
                turn = run_blocking(session.call(name, wrong))
                assert (turn.refused, turn.done) == (True, False)
                turn.text.encode()
                assert not run_blocking(session.call(name, right)).refused
                assert session.episode is not None
                assert (session.episode.turns, session.episode.refused) == (2, 1)


@pytest.mark.parametrize("value", [None, 7, [1], "x"])
def test_arguments_that_are_no_mapping_are_refused(vault: str, value: Any) -> None:
    with pool_of(vault) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=1))
        assert run_blocking(session.call("look", value)).text == (
            "The arguments of look are no JSON object."
        )


@pytest.mark.parametrize(
    "said", ['{"by": "\\ud83d"}', "1e999", "1" * 4000, '{"action":' + "[" * 100_000, "[" * 100_000]
)
def test_whatever_is_said_is_refused_and_ends_nothing(said: str) -> None:
    with serving(Line) as url, pool_of(url) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=1))
        turn = run_blocking(session.answer(said))
        assert (turn.refused, turn.done) == (True, False)
        assert not run_blocking(session.answer("1")).refused


def test_many_episodes_are_under_way_at_once_on_few_servers() -> None:
    guesses, five = itertools.count(1), threading.Event()

    def wait_for_others() -> None:
        if next(guesses) == 5:
            five.set()
        assert five.wait(20)  # each until there are five

    def make() -> Vault:
        return Vault(during_guess=wait_for_others)

    with serving(make) as one, serving(make) as two:

        async def all_of_them() -> list[Trajectory]:
            async with pool_of([one, two]) as pool:
                return await play_all(pool, guesser, range(24), mode="tools", concurrency=12)

        played = asyncio.run(all_of_them())
    assert [each.episode.seed for each in played] == list(range(24))
    assert all(each.episode.done for each in played)


def test_a_policy_that_fails_ends_the_other_episodes(vault: str) -> None:
    async def policy(messages: Any, tools: Any) -> str:
        raise ZeroDivisionError

    async def all_of_them() -> None:
        async with pool_of(vault) as pool:
            await play_all(pool, policy, range(8), mode="tools")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(all_of_them())


def test_a_policy_has_a_limit(vault: str) -> None:
    async def policy(messages: Any, tools: Any) -> str:
        await asyncio.sleep(60)
        return ""

    async def one() -> None:
        async with pool_of(vault) as pool:
            await play(pool.session(), policy, mode="tools", policy_timeout_s=0.05)

    with pytest.raises(errors.DeadlineExceededError, match="policy did not reply within 0.05 s"):
        asyncio.run(one())


def test_a_session_is_used_by_threads_one_call_after_the_other(vault: str) -> None:
    with pool_of(vault) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=2))
        threads = [
            threading.Thread(target=lambda: run_blocking(session.call("look", {})))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.episode is not None
        assert (session.episode.turns, session.episode.refused) == (8, 0)


DROP = {
    "action": {
        "title": "DropAction",
        "description": "Drops a disc.",
        "type": "object",
        "properties": {"metadata": {"type": "object"}, "column": {"type": "integer", "minimum": 0}},
        "required": ["column"],
    },
    "observation": {"type": "object", "properties": {"count": {"type": "integer"}}},
}


def test_servers_of_openenv_are_played_and_lost_as_others_are() -> None:
    with FakeOpenEnv(schema=DROP) as server, pool_of(server.url, on_failure="end") as pool:
        (tool,) = pool.abilities.tools
        assert (tool.name, tool.description) == ("act", "Drops a disc.")
        session = pool.session()
        assert run_blocking(session.begin(seed=3)).text == 'count: 0\nlast: {"seed": 3}'
        turn = run_blocking(session.call("act", {"column": 2}))
        assert (turn.text, turn.reward) == ('count: 1\nlast: {"column": 2}', 1.0)
        server.kill_connections()
        assert run_blocking(session.call("act", {"column": 2})).done
        assert session.episode is not None
        assert isinstance(session.episode.failure, errors.OpenEnvGymError)
        assert run_blocking(session.begin(seed=4)).text == 'count: 0\nlast: {"seed": 4}'
        # Lost between two episodes: nobody notices.
        server.kill_connections()
        assert run_blocking(session.begin(seed=5)).text == 'count: 0\nlast: {"seed": 5}'


# -- failures -----------------------------------------------------------------------------------


def test_a_server_that_fails_is_an_exception() -> None:
    with serving(Line) as url, pool_of(url) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=5))
        with pytest.raises(errors.EnvironmentFailedError, match="the line broke"):
            run_blocking(session.call("act", {"by": -3}))
        with pytest.raises(errors.EnvironmentFailedError, match="the line broke"):
            run_blocking(session.call("act", {"by": 1}))
        run_blocking(session.begin(seed=5))
        assert not run_blocking(session.call("act", {"by": 1})).refused


def test_a_server_that_fails_is_the_end_of_the_episode() -> None:
    with serving(Line) as url, pool_of(url, on_failure="end", failure_reward=-7.0) as pool:
        session = pool.session()
        run_blocking(session.begin(seed=5))
        turn = run_blocking(session.call("act", {"by": -3}))
        assert (turn.reward, turn.done, turn.truncated) == (-7.0, True, True)
        assert "the line broke" not in turn.text
        assert session.episode is not None
        assert isinstance(session.episode.failure, errors.EnvironmentFailedError)
        assert session.score == -7.0
        run_blocking(session.begin(seed=5))
        assert session.score == 0.0


def test_a_step_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.agents.session._CLOSE_S", 0.1)  # the step goes on
    gate = threading.Event()
    with (
        serving(lambda: Vault(during_guess=lambda: gate.wait(600))) as url,
        pool_of(url, timeout_s=3) as pool,
    ):
        session = pool.session()
        run_blocking(session.begin(seed=5))
        with pytest.raises(errors.DeadlineExceededError):
            run_blocking(session.call("guess", {"digit": 1}))
        gate.set()


def test_nobody_answers() -> None:
    with reserved_port() as port, pytest.raises(errors.ServerUnreachableError):
        pool_of(f"http://127.0.0.1:{port}").session()


def echo_servers() -> set[int]:
    """Return processes that serve Echo and that this one has started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == os.getpid() and b"echo_env" in words:
            found.add(int(process.name))
    return found


def test_the_next_episode_after_a_killed_server_has_another_one() -> None:
    before = echo_servers()  # of an earlier test, which are just ending
    with AgentPool("openenv/Echo-v0", provider="process", on_failure="end") as pool:
        first, second = pool.session(), pool.session()
        run_blocking(first.begin(seed=1))
        run_blocking(second.begin(seed=1))
        (server,) = echo_servers() - before
        os.kill(server, signal.SIGKILL)
        assert run_blocking(first.call("echo_message", {"message": "a"})).done
        assert first.episode is not None
        assert isinstance(first.episode.failure, errors.ConnectionLostError)
        # `second` has not heard of it yet: nothing of its next episode is lost.
        for session in (first, second):
            run_blocking(session.begin(seed=1))
            assert run_blocking(session.call("echo_message", {"message": "b"})).text == "b"
        assert eventually(lambda: len(echo_servers() - before - {server}) == 1)
    assert eventually(lambda: not echo_servers())


def test_servers_end_with_the_last_session() -> None:
    before = echo_servers()
    pool = AgentPool("openenv/Echo-v0", provider="process", num_servers=2)
    sessions = [pool.session() for _ in range(3)]
    for session in sessions:
        run_blocking(session.begin())
    assert len(echo_servers() - before) == 2
    del session
    sessions.clear()
    # Another thread may hold one a moment longer.
    assert eventually(lambda: gc.collect() >= 0 and not echo_servers())


# -- pools --------------------------------------------------------------------------------------


def test_a_pool_arrives_elsewhere_with_what_it_knows(vault: str) -> None:
    with pool_of(vault, tools=["guess"], max_turns=3) as pool:
        abilities = pool.abilities
        other = pickle.loads(pickle.dumps(pool))
        assert other.abilities == abilities
        with other:
            session = other.session()
            run_blocking(session.begin(seed=2))
            assert run_blocking(session.call("guess", {"digit": Vault.code_of(2)})).done


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"num_servers": 0}, "num_servers"),
        ({"on_failure": "ignore"}, "on_failure"),
        ({"max_turns": 0}, "max_turns"),
        ({"refused_reward": "x"}, "refused_reward"),
        ({"failure_reward": float("nan")}, "failure_reward"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"base_url": []}, "base_url"),
        ({"base_url": "http://127.0.0.1:9", "provider": "process"}, "base_url"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        AgentPool("openenv/Echo-v0", **arguments)
    assert caught.value.field == field


def test_an_id_that_hosts_anything_needs_an_address() -> None:
    with pytest.raises(errors.InvalidOptionError, match="base_url is missing"):
        AgentPool("openenv/Remote-v0", provider="process")
    with pytest.raises(errors.UnknownEnvironmentError):
        AgentPool("openenv/TextBlackjak-v0")


def test_untrusted_code_is_not_run_without_isolation() -> None:
    pool = AgentPool("openenv/Coding-v0", provider="process")
    with pytest.raises(errors.IsolationError, match="contains nothing"):
        pool.session()


def test_components_that_never_ran_are_no_number(vault: str) -> None:
    from openenv_gym.agents import Episode, Turn

    episode = Episode()
    episode.add(Turn("", components={"a": math.nan, "b": 1.0}))
    assert math.isnan(episode.components["a"])
    episode.add(Turn("", components={"a": 2.0, "b": math.nan}))
    assert episode.components == {"a": 2.0, "b": 1.0}
