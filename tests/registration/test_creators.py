from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import load_env_creator

from openenv_gym.registration import creators, known_environments
from openenv_gym.registration.creators import EnvCreator


def creator(env_id: str) -> EnvCreator:
    found = load_env_creator(str(gymnasium.spec(env_id).entry_point))
    assert isinstance(found, EnvCreator)
    return found


def test_every_spec_leads_to_its_creator() -> None:
    known = known_environments()
    ours = [env_id for env_id in gymnasium.registry if env_id in known]
    assert len(ours) > 100
    for env_id in ours:
        assert creator(env_id).entry is known[env_id]


@pytest.mark.parametrize(
    ("env_id", "metadata"),
    [
        ("openenv/CartPole-v1", {"render_modes": ["human", "rgb_array"], "render_fps": 50}),
        ("openenv/phys2d-CartPole-v1", {"render_modes": ["human", "rgb_array"], "render_fps": 50}),
        ("openenv/Echo-v0", {"render_modes": ["ansi"], "render_fps": 4}),
        (
            "openenv/Hopper-v5",
            {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"]},
        ),
    ],
)
def test_metadata(env_id: str, metadata: dict[str, Any]) -> None:
    assert creator(env_id).metadata == metadata


def test_where_modes_are_unknown_every_known_mode_passes() -> None:
    modes = creator("openenv/Gymnasium-v0").metadata["render_modes"]
    for entry in known_environments().values():
        assert set(entry.render_modes or ()) <= set(modes)


def test_make_calls_with_plain_kwargs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def make_env(entry: Any, **kwargs: Any) -> gymnasium.Env[Any, Any]:
        calls.append((entry.id, kwargs))
        return gymnasium.make("CartPole-v1", render_mode=kwargs.get("render_mode")).unwrapped

    monkeypatch.setattr(creators, "make_env", make_env)
    env = gymnasium.make(
        "openenv_gym:openenv/PongNoFrameskip-v4", provider="thread", full_action_space=True
    )
    assert calls == [
        (
            "openenv/PongNoFrameskip-v4",
            {
                "game": "pong",
                "repeat_action_probability": 0.0,
                "full_action_space": True,
                "frameskip": 1,
                "max_num_frames_per_episode": 108000,
                "provider": "thread",
            },
        )
    ]
    spec = env.spec
    assert spec is not None
    assert spec.entry_point == "openenv_gym.registration.creators:PongNoFrameskip-v4"
    env.close()


def test_render_modes_pass_or_are_wrapped_as_for_a_local_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str | None] = []

    def make_env(entry: Any, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        seen.append(render_mode)
        return gymnasium.make("CartPole-v1", render_mode="rgb_array").unwrapped

    monkeypatch.setattr(creators, "make_env", make_env)
    gymnasium.make("openenv/phys2d-CartPole-v1", render_mode="human").close()
    listing = gymnasium.make("openenv/CartPole-v1", render_mode="rgb_array_list")
    assert seen == ["human", "rgb_array"]
    assert isinstance(listing, gymnasium.wrappers.RenderCollection)
    listing.close()
    with pytest.warns(UserWarning, match=r"'ansi' that is not in the possible render_modes"):
        gymnasium.make("openenv/CartPole-v1", render_mode="ansi").close()


def test_a_creator_can_be_pickled() -> None:
    loaded = pickle.loads(pickle.dumps(creator("openenv/Pong-v5")))
    assert loaded.entry == creator("openenv/Pong-v5").entry
    assert loaded.metadata == creator("openenv/Pong-v5").metadata
    assert repr(loaded) == "EnvCreator('openenv/Pong-v5')"


def test_unknown_names_are_missing_attributes() -> None:
    assert not hasattr(creators, "__path__")
    assert not hasattr(creators, "NoSuch-v0")
    with pytest.raises(AttributeError, match=r"Did you mean 'openenv/CartPole-v1'\?"):
        load_env_creator("openenv_gym.registration.creators:CartPol-v1")


def test_an_empty_variable_names_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_BASE_URL", "")
    monkeypatch.setenv("OPENENV_PROVIDER", "thread")
    gymnasium.make("openenv/CartPole-v1").close()
    gymnasium.make_vec("openenv/CartPole-v1").close()
