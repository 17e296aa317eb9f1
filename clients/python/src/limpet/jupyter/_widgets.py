"""The state of widgets on its way from the sandbox to the page of the notebook, which has the models in it.

The page makes a model of the class that a state names, and shows what is in it: some of that as HTML, as addresses, as
styles. So only the standard classes get there, and of their state what harms nobody.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..results import Display
from . import _display

State = dict[str, Any]
BASE, CONTROLS, OUTPUT = (f"@jupyter-widgets/{name}" for name in ("base", "controls", "output"))
STANDARD = """
    Accordion Audio BoundedFloatText BoundedIntText Box Button ButtonStyle Checkbox CheckboxStyle
    ColorPicker ColorsInput Combobox DatePicker Datetime DescriptionStyle DirectionalLink Dropdown
    FileUpload FloatLogSlider FloatProgress FloatRangeSlider FloatSlider FloatText FloatsInput GridBox HBox
    HTML HTMLMath HTMLMathStyle HTMLStyle Image IntProgress IntRangeSlider IntSlider IntText IntsInput Label
    LabelStyle Link NaiveDatetime Password Play ProgressStyle RadioButtons Select SelectMultiple
    SelectionRangeSlider SelectionSlider SliderStyle Stack Tab TagsInput Text TextStyle Textarea Time
    ToggleButton ToggleButtonStyle ToggleButtons ToggleButtonsStyle VBox Valid Video
"""
MODELS = {
    BASE: {"LayoutModel"},
    OUTPUT: {"OutputModel"},
    CONTROLS: {f"{name}Model" for name in STANDARD.split()},
}
VIEWS = {  # of models that have not the view of their own name
    "BoundedFloatTextModel": "FloatTextView",
    "BoundedIntTextModel": "IntTextView",
    "FloatProgressModel": "ProgressView",
    "IntProgressModel": "ProgressView",
    "NaiveDatetimeModel": "DatetimeView",
}
FORMATS = {  # of what is not text; an address would be fetched
    "ImageModel": {"png", "jpeg", "jpg", "gif", "webp", "bmp"},
    "AudioModel": {"mp3", "mpeg", "ogg", "wav", "wave", "webm", "aac", "flac"},
    "VideoModel": {"mp4", "ogg", "webm", "quicktime"},
}
LINKS = {"LinkModel", "DirectionalLinkModel"}
LINKED = {"disabled", "index", "max", "min", "playing", "selected_index", "step", "value"}
FIXED = re.compile(r"_(model|view)_(module|name|module_version)\Z")
NAME = re.compile(r"(?!__|constructor\Z|prototype\Z)[A-Za-z_]\w*\Z")
CLASS = re.compile(r"(widget|jupyter)-[\w-]*\Z")
FETCHES = re.compile(r"\\|/\*|@|url|image|element|src|fade|attr", re.IGNORECASE)
TEX = re.compile(r"\\(?=\s*(href|url|require|style|cssId|class|includegraphics|data|html|mml|unicode))")
UNKNOWN = (
    "<b>limpet:</b> {model} of <code>{module}</code> is not shown. Its scripts would run in the page of the notebook, "
    "with your rights; only the widgets of ipywidgets itself are shown. <code>--trust-output</code> shows all."
)


Models = Mapping[str, "Model"]


class Unsafe(ValueError):
    """A message is not passed on; the text says why."""


class Model:
    """What is known of one: enough to know what the next part of its state may be."""

    def __init__(self, state: State, trusted: bool) -> None:
        module, name = state.get("_model_module"), state.get("_model_name")
        self.trusted = trusted
        self.is_known = trusted or (isinstance(module, str) and name in MODELS.get(module, ()))
        self.name = str(name) if self.is_known else "HTMLModel"
        self.module = str(module) if self.is_known else CONTROLS
        self.has_html_description = state.get("description_allow_html") is True
        self.has_view = state.get("_view_name") is not None
        self._said = UNKNOWN.format(model=html.escape(str(name)[:99]), module=html.escape(str(module)[:99]))

    def opened(self, state: State, models: Models) -> State:
        """Of a new one."""
        if self.trusted:
            return _mapping(_display.plain(state))
        names = {
            "_model_module": self.module,
            "_model_name": self.name,
            "_model_module_version": self._version(state.get("_model_module_version")),
            "_view_module": BASE if self.name.endswith("StyleModel") else self.module,
            "_view_name": self._view(),
            "_view_module_version": self._version(state.get("_view_module_version")),
        }
        if not self.is_known:
            layout = state.get("layout")
            return {**names, "value": self._said, **({"layout": layout} if isinstance(layout, str) else {})}
        html_description = {"description_allow_html": True} if self.has_html_description else {}
        return {**self.changed(state, models), **names, **html_description}

    def changed(self, state: State, models: Models) -> State:
        """Of one that was opened before. What it is does not change, nor how its description is shown."""
        if self.trusted:
            return _mapping(_display.plain(state))
        if not self.is_known:
            return {}
        return {
            name: self._value(name, value, models)
            for name, value in state.items()
            if NAME.match(name) and not FIXED.match(name) and name != "description_allow_html"
        }

    def may_be_linked(self, name: str) -> bool:
        """Whether a value of that name is always passed on as it is."""
        return self.is_known and name in LINKED and (name != "value" or self._rule(name, {}) is None)

    def _version(self, value: Any) -> str:
        is_one = isinstance(value, str) and re.fullmatch(r"[\d.^~*]{1,20}", value)
        return value if self.is_known and is_one else "*"

    def _view(self) -> str | None:
        if self.name.endswith("StyleModel"):
            return "StyleView"
        return VIEWS.get(self.name, self.name.replace("Model", "View")) if self.has_view else None

    def _value(self, name: str, value: Any, models: Models) -> Any:
        rule = self._rule(name, models)
        if rule is not None:
            return rule(value)
        if self.name in LINKS and name in ("source", "target"):
            return _link_end(value, models)
        return _display.plain(value)

    def _format(self, value: Any) -> Any:
        if value not in FORMATS[self.name]:
            formats = ", ".join(sorted(FORMATS[self.name]))
            raise Unsafe(
                f"a widget of the format {value!a} is not shown, but {formats}: an address would be fetched"
            )
        return value

    def _rule(self, name: str, models: Models) -> Callable[[Any], Any] | None:
        if name == "_dom_classes":
            return _classes
        if name in ("icon", "icons", "tag_style", "button_style", "bar_style", "box_style"):
            return _words
        if self.name.endswith("StyleModel") or self.name == "LayoutModel":
            return _style
        if name == "description":
            return _marked_up if self.has_html_description else _math
        if self.name in FORMATS and name == "format":
            return self._format
        if name == "value":
            return {"HTMLModel": _page, "HTMLMathModel": _marked_up, "LabelModel": _math}.get(self.name)
        if self.name == "OutputModel" and name == "outputs":
            return lambda value: _outputs(value, models)
        return None


def buffer_paths(model: Model, paths: Any) -> list[list[Any]]:
    """Where the bytes of a message belong: a picture's, and nowhere else."""
    if not isinstance(paths, list) or not all(path == ["value"] and model.name in FORMATS for path in paths):
        raise Unsafe(f"bytes in a widget of the kind {model.name}")
    return paths


def _classes(value: Any) -> list[str]:
    return (
        [each for each in value if isinstance(each, str) and CLASS.match(each)]
        if isinstance(value, list)
        else []
    )


def _words(value: Any) -> Any:
    if isinstance(value, list):
        return [_words(each) for each in value]
    return re.sub(r"[^a-z0-9-]", "", value) if isinstance(value, str) else ""


def _style(value: Any) -> Any:
    """A style fetches nothing."""
    if isinstance(value, str):
        return None if FETCHES.search(value) else value
    return value if isinstance(value, (int, float, bool)) else None


def _math(value: Any) -> str:
    """Text in which frontends typeset formulas; no command of those makes a link or runs anything."""
    return TEX.sub("\\\\\u200b", value) if isinstance(value, str) else ""


def _page(value: Any) -> str:
    """HTML, as of a cell: cleaned, or in a frame."""
    return str(_display.harmless("text/html", value)) if isinstance(value, str) else ""


def _marked_up(value: Any) -> str:
    return _math(_display.clean(value).replace("<wbr>", "")) if isinstance(value, str) else ""


def _link_end(value: Any, models: Models) -> Any:
    """The page copies the value of one end to the other, past all this: neither may be one that is rewritten."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value):
        model = models.get(value[0].removeprefix("IPY_MODEL_"))
        if model is not None and model.may_be_linked(value[1]):
            return value
    raise Unsafe("jslink() and jsdlink() do not join what is shown as HTML; link() and dlink() do")


def _outputs(value: Any, models: Models) -> list[State]:
    return [shown for each in value if (shown := _output(each, models))] if isinstance(value, list) else []


def _output(output: Any, models: Models) -> State | None:
    kind = output.get("output_type") if isinstance(output, dict) else None
    if kind == "stream":
        return {"output_type": kind, "name": _one_of(output.get("name")), "text": str(output.get("text"))}
    if kind == "error":
        lines = output.get("traceback")
        texts = {name: str(output.get(name)) for name in ("ename", "evalue")}
        return {"output_type": kind, **texts, "traceback": [str(line) for line in lines or ()]}
    if kind not in ("display_data", "execute_result") or not isinstance(output.get("data"), dict):
        return None
    display = Display(output["data"], _mapping(output.get("metadata")), None, False)
    data, metadata = _display.contents(display, False, view(display, models))
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def view(display: Display, models: Models) -> State | None:
    """What a display says of a widget that is there."""
    said = _mapping(display.data.get(_display.WIDGET))
    known = isinstance(said.get("model_id"), str) and said["model_id"] in models
    return {"model_id": said["model_id"], "version_major": 2, "version_minor": 0} if known else None


def _one_of(name: Any) -> str:
    return "stderr" if name == "stderr" else "stdout"


def _mapping(value: Any) -> State:
    return value if isinstance(value, dict) else {}
