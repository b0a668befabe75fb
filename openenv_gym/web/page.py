"""The page itself: where everything stands, and what its buttons do."""

from __future__ import annotations

import contextlib
import html
import json
from typing import Any

import gradio

from openenv_gym import errors
from openenv_gym.web.filled import read_form, state_of
from openenv_gym.web.handed import PEER_HEADER
from openenv_gym.web.keyboard import keys_of
from openenv_gym.web.kinds import Kind, kinds_of, problems_of
from openenv_gym.web.tabs import Tab, Tabs
from openenv_gym.web.views import short
from openenv_gym.web.widgets import held_of, problem_html, said_html, show_form, value_of


__all__ = ["STYLE", "THEME", "make_page"]

_FONTS = ("system-ui", "sans-serif")  # those of the machine: none is fetched
_MONO = ("ui-monospace", "monospace")
THEME = gradio.themes.Default(font=_FONTS, font_mono=_MONO, spacing_size="sm")
STYLE = "footer { display: none !important; }"

_SILENT: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "api_visibility": "private",
}
_GONE = "This tab is not known any more; load the page again."
_LEGAL_SHOWN = 400


def make_page(tabs: Tabs) -> gradio.Blocks:
    """Return the page.

    Args:
        tabs: The tabs of browsers.
    """
    facts = tabs.service.facts
    name = str(facts.get("name", "environment"))
    with gradio.Blocks(
        title=f"{name} · openenv-gym", analytics_enabled=False, fill_width=True
    ) as page:
        tab = gradio.State("")
        gradio.HTML(_heading(name, str(facts.get("description", ""))))
        mark = gradio.HTML("", elem_id="oe-mark", elem_classes="oe-hidden")
        with gradio.Row(elem_classes="oe-main"):
            with gradio.Column(scale=2, min_width=300, elem_classes="oe-left"), gradio.Tabs():
                with gradio.Tab("Play", id="play"):
                    _Play(tabs, page, tab, mark)
                with gradio.Tab("Watch", id="watch"):
                    _watch(tabs, tab)
            with gradio.Column(scale=3, min_width=300, elem_classes="oe-right"):
                gradio.HTML('<section id="oe-view" aria-live="off"></section>')
        gradio.HTML('<section id="oe-history"></section>')
    return page


def _heading(name: str, description: str) -> str:
    return (
        f'<header class="oe-head"><h1>{html.escape(name)}</h1>'
        f"<p>{html.escape(description)}</p>"
        '<span id="oe-status" role="status">connecting…</span></header>'
    )


class _Play:
    """The left pane: a session of the tab's own."""

    def __init__(self, tabs: Tabs, page: Any, tab: Any, mark: Any) -> None:
        self._tabs = tabs
        with gradio.Row(elem_classes="oe-reset"):
            seed = gradio.Textbox(
                label="Seed", placeholder="none", min_width=90, scale=1, elem_id="oe-seed"
            )
            reset = gradio.Button("Reset", scale=1, min_width=90, elem_id="oe-reset")
        seed_problem = gradio.HTML("", elem_classes="oe-problem-slot")
        with gradio.Accordion("Options of the episode", open=False):
            options = gradio.Textbox(
                label="reset(options=…)", info="JSON", lines=2, elem_id="oe-options"
            )
            options_problem = gradio.HTML("", elem_classes="oe-problem-slot")
        with gradio.Accordion("Environment", open=False) as accordion:
            make = gradio.Textbox(
                label="make(…)",
                info="JSON: what the environment is made with, where not the server's defaults",
                lines=2,
                elem_id="oe-make",
            )
            make_problem = gradio.HTML("", elem_classes="oe-problem-slot")
            renew = gradio.Button("New environment", elem_id="oe-renew")
        self._message = gradio.HTML("", elem_id="oe-message", elem_classes="oe-problem-slot")
        self._kind = gradio.Dropdown(
            label="Kind of action", choices=[], visible=False, interactive=True, elem_id="oe-kind"
        )
        self._legal = gradio.Dropdown(
            label="Legal now", choices=[], visible=False, interactive=True, elem_id="oe-legal"
        )
        # Pressed by the page's own code, after playing by keyboard.
        again = gradio.Button("What is legal", elem_id="oe-again", elem_classes="oe-hidden")
        again.click(self._look_again, [tab], [self._legal], **_SILENT)
        # Which environment the form is for. Not a State, whose changes nobody hears of who does not
        # take them from Gradio's queue.
        made = gradio.Textbox("", elem_classes="oe-hidden")
        gradio.render(
            inputs=[tab, made, self._kind],
            # Not its change, which comes with a new environment, too: a form that is made twice
            # loses what was filled in in between.
            triggers=[made.change, self._kind.input],
            show_progress="hidden",
        )(lambda name, _, kind: self._show(tab, name, kind))

        opened = [made, self._kind, self._legal, self._message, make_problem, accordion]
        page.load(self._load, None, [tab, mark, *opened], **_SILENT)
        renew.click(self._renew, [tab, make], opened, **_SILENT)
        began = [self._legal, self._message, seed_problem, options_problem]
        for press in (reset.click, seed.submit):
            press(self._reset, [tab, seed, options], began, **_SILENT)

    # -- environments and episodes ------------------------------------------------------------

    def _load(self, request: gradio.Request) -> list[Any]:
        tab = self._tabs.add(request.headers.get(PEER_HEADER, ""))
        mark = f'<i id="oe-tab" data-tab="{html.escape(tab.name)}"></i>'
        try:
            return [tab.name, mark, *self._open(tab, {})]
        finally:
            tab.leave()  # from now on its browser has to come, which does not know it before

    def _renew(self, name: str, make: str) -> list[Any]:
        tab = self._tabs.get(name)
        if tab is None:
            return [*[gradio.skip()] * 3, problem_html(_GONE), "", gradio.skip()]
        try:
            options = _read_map(make)
        except ValueError as error:
            return [*[gradio.skip()] * 4, problem_html(str(error)), gradio.skip()]
        return self._open(tab, options)

    def _open(self, tab: Tab, options: dict[str, Any]) -> list[Any]:
        """Make an environment and begin an episode; return what changes on the page."""
        try:
            tab.open(options)
        except errors.OpenEnvGymError as error:
            nothing = [tab.session_name, gradio.update(visible=False), gradio.update(visible=False)]
            return [*nothing, "", problem_html(_words(error)), gradio.update(open=True)]
        kinds = kinds_of(tab.described)
        message = ""
        try:
            tab.reset(None, None)
        except errors.OpenEnvGymError as error:
            message = problem_html(_words(error))
        names = [(kind.name, number) for number, kind in enumerate(kinds)]
        chosen = gradio.update(choices=names, value=0, visible=len(kinds) > 1)
        return [tab.session_name, chosen, _legal_update(tab), message, "", gradio.skip()]

    def _reset(self, name: str, seed: str, options: str) -> list[Any]:
        tab = self._tabs.get(name)
        if tab is None:
            return [gradio.skip(), problem_html(_GONE), "", ""]
        number: int | None = None
        if seed.strip():
            if not (seed.strip().isascii() and seed.strip().isdigit()):
                text = f"{seed.strip()!r} is no seed: expected a whole number from 0, or nothing."
                return [gradio.skip(), "", problem_html(text), ""]
            number = int(seed)
        try:
            chosen = _read_map(options) if options.strip() else None
        except ValueError as error:
            return [gradio.skip(), "", "", problem_html(str(error))]
        try:
            tab.reset(number, chosen)
        except errors.OpenEnvGymError as error:
            text = problem_html(_words(error))
            if error.field in ("seed", "options"):
                places = {"seed": ["", text, ""], "options": ["", "", text]}
                return [gradio.skip(), *places[error.field]]
            return [gradio.skip(), text, "", ""]
        return [_legal_update(tab), "", "", ""]

    def _look_again(self, name: str) -> Any:
        tab = self._tabs.get(name)
        if tab is None:
            return gradio.skip()
        with contextlib.suppress(errors.OpenEnvGymError):
            tab.describe()
        return _legal_update(tab)

    # -- actions ------------------------------------------------------------------------------

    def _show(self, tab_state: Any, name: str, chosen: int | None) -> None:
        """Put the form of a kind of action on the page."""
        tab = self._tabs.get(name)
        kinds = [] if tab is None or not tab.session_name else kinds_of(tab.described)
        if tab is None or not kinds:
            return
        kind = kinds[chosen if isinstance(chosen, int) and chosen < len(kinds) else 0]
        if kind.help:
            gradio.HTML(said_html(kind.help), elem_classes="oe-kind-help")
        fields = show_form(kind.form)
        step = gradio.Button("Step", variant="primary", elem_id="oe-step")
        keys = None if kind.tool else keys_of(kind.form)
        if keys is not None:
            gradio.HTML(
                f'<div id="oe-keys" data-rate="{tab.frames_per_second:g}" '
                f'data-keys="{html.escape(json.dumps(keys))}"></div>'
            )
        widgets = [field.widget for field in fields]
        outputs = [self._legal, self._message, *(field.problem for field in fields)]

        def act(name: str, *values: Any) -> list[Any]:
            held = {
                field.leaf.key: held_of(field.leaf, value)
                for field, value in zip(fields, values, strict=True)
            }
            legal, message, problems = self._act(name, kind, held)
            return [legal, message, *(problem_html(problems.get(f.leaf.key, "")) for f in fields)]

        def fill(choice: str) -> Any:
            held = state_of(kind.form, json.loads(choice)) if choice else {}
            filled = [
                value_of(field.leaf, held[field.leaf.key])
                if field.leaf.key in held
                else gradio.skip()
                for field in fields
            ]
            return filled if len(filled) > 1 else filled[0]

        step.click(act, [tab_state, *widgets], outputs, **_SILENT)
        for field in fields:
            if field.leaf.kind in ("text", "integer", "number") and field.leaf.lines == 1:
                field.widget.submit(act, [tab_state, *widgets], outputs, **_SILENT)
        if widgets:
            self._legal.input(fill, [self._legal], widgets, **_SILENT)

    def _act(self, name: str, kind: Kind, held: dict[str, Any]) -> tuple[Any, str, dict[str, str]]:
        """Take a step; return the legal actions, a message, and what is wrong with which field."""
        tab = self._tabs.get(name)
        if tab is None:
            return gradio.skip(), problem_html(_GONE), {}
        values, problems = read_form(kind.form, held)
        if problems:
            return gradio.skip(), "", problems
        try:
            tab.step(kind.action_of(values))
        except errors.OpenEnvGymError as error:
            problems, text = problems_of(kind, error)
            return gradio.skip(), problem_html(text), problems
        return _legal_update(tab), "", {}


def _watch(tabs: Tabs, name: Any) -> None:
    """Put what is needed to watch somebody else's session on the page."""
    with gradio.Row():
        chosen = gradio.Dropdown(
            label="Session", choices=[], interactive=True, scale=3, elem_id="oe-sessions"
        )
        look = gradio.Button("Look again", scale=1, min_width=90, elem_id="oe-look")
    index = gradio.Textbox(label="Sub-environment", value="0", visible=False, elem_id="oe-index")
    problem = gradio.HTML("", elem_classes="oe-problem-slot", elem_id="oe-watch-problem")
    with gradio.Row():
        begin = gradio.Button("Watch", variant="primary", elem_id="oe-watch")
        end = gradio.Button("Stop", elem_id="oe-unwatch")
    gradio.HTML(
        said_html(
            "You see what the session does from now on. Whoever runs it does not notice, and "
            "nothing of what it does changes."
        ),
        elem_classes="oe-kind-help",
    )

    def find(name: str) -> list[Any]:
        tab = tabs.get(name)
        if tab is None:
            return [gradio.skip(), gradio.skip(), problem_html(_GONE)]
        try:
            sessions = tab.sessions()
        except errors.OpenEnvGymError as error:
            return [
                gradio.update(choices=[], value=None),
                gradio.skip(),
                problem_html(_words(error)),
            ]
        choices = [(_title(each), each["session"]) for each in sessions]
        value = choices[0][1] if choices else None
        several = bool(sessions) and sessions[0]["num_envs"] is not None
        text = "" if choices else problem_html("Nobody else has a session at the moment.")
        return [gradio.update(choices=choices, value=value), gradio.update(visible=several), text]

    def choose(name: str, session: str) -> Any:
        tab = tabs.get(name)
        known = {} if tab is None else {each["session"]: each for each in tab.sessions()}
        return gradio.update(visible=(known.get(session) or {}).get("num_envs") is not None)

    def watch(name: str, session: str | None, index: str) -> str:
        tab = tabs.get(name)
        if tab is None:
            return problem_html(_GONE)
        if not session:
            return problem_html("Choose a session.")
        if not (index.strip().isascii() and index.strip().isdigit()):
            return problem_html(f"{index!r} is no number of a sub-environment.")
        try:
            tab.watch(session, int(index))
        except errors.OpenEnvGymError as error:
            return problem_html(_words(error))
        return ""

    def unwatch(name: str) -> str:
        tab = tabs.get(name)
        if tab is not None:
            tab.unwatch()
        return ""

    look.click(find, [name], [chosen, index, problem], **_SILENT)
    chosen.input(choose, [name, chosen], [index], **_SILENT)
    for press in (begin.click, index.submit):
        press(watch, [name, chosen, index], [problem], **_SILENT)
    end.click(unwatch, [name], [problem], **_SILENT)


def _title(session: dict[str, Any]) -> str:
    many = f" x {session['num_envs']}" if session["num_envs"] is not None else ""
    return (
        f"{session['environment']}{many}, {session['steps']} steps, "
        f"{session['peer'] or 'here'} ({session['session']})"
    )


def _legal_update(tab: Tab) -> Any:
    legal = tab.described.get("legal")
    if legal is None:
        return gradio.update(visible=False, choices=[], value=None)
    choices = [(short(action), json.dumps(action)) for action in legal[:_LEGAL_SHOWN]]
    return gradio.update(
        visible=True, choices=choices, value=None, label=f"Legal now ({len(legal)})"
    )


def _read_map(text: str) -> dict[str, Any]:
    """Read a map in JSON; nothing is an empty one.

    Raises:
        ValueError: It is none.
    """
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"This is no JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from None
    if not isinstance(found, dict):
        raise ValueError('Expected a map in JSON, such as {"key": 1}.')
    return found


def _words(error: errors.OpenEnvGymError) -> str:
    return f"{error.message} {error.hint}" if error.hint else error.message
