"""llm-sandbox's ``SandboxSession`` on sessions of Limpet: programs that use it change one import.

from limpet.llm_sandbox import SandboxSession

with SandboxSession(lang="python") as session:
    print(session.run("print('Hello, World!')").stdout)

Results and exceptions are those of llm-sandbox, which the extra ``llm-sandbox`` of the package brings.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any

try:
    from llm_sandbox import ConsoleOutput, ExecutionResult, FileType, PlotOutput
    from llm_sandbox.exceptions import (
        CommandEmptyError,
        ContainerError,
        LanguageNotSupportedError,
        LibraryInstallationNotSupportedError,
        NotOpenSessionError,
        SandboxTimeoutError,
        SecurityError,
        ValidationError,
    )
except ImportError as error:
    raise ImportError(
        f"limpet.llm_sandbox needs llm-sandbox ({error}): pip install 'llm-sandbox>=0.3.46,<0.4'",
        name=error.name,
    ) from error

from . import BadRequest, Client, Error, Result, Session
from ._adapters import dockerfiles, references
from ._adapters.exits import check_ran, exit_code, exit_code_of_code
from ._adapters.kept import Kept

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SandboxSession"]

WORKDIR, HOME = "/sandbox", "/session"  # llm-sandbox's directory, and ours, which it stands for
FOREVER = 86400.0
FORMATS = {"image/png": FileType.PNG, "image/jpeg": FileType.JPEG, "image/svg+xml": FileType.SVG}
# What llm-sandbox gives to a container runtime, as the options of a session.
RUNTIME = {
    "mem_limit": "memory",
    "cpu_count": "cpus",
    "pids_limit": "pids",
    "environment": "env",
    "network_mode": "network",
}

OnText = Callable[[str], Any]


class SandboxSession:
    """A sandbox with llm-sandbox's methods. Other than there, variables stay from one ``run()`` to the next.

    ``/sandbox``, llm-sandbox's directory, is ``/session`` here: in paths that are given, and in the default image.
    """

    def __init__(
        self,
        image: str | None = None,
        dockerfile: str | None = None,
        lang: str = "python",
        keep_template: bool = False,
        verbose: bool = False,
        *,
        backend: object = None,
        client: Client | None = None,
        container_id: str | None = None,
        workdir: str = WORKDIR,
        libraries: Sequence[str] | None = None,
        default_timeout: float | None = 60.0,
        execution_timeout: float | None = None,
        session_timeout: float | None = None,
        runtime_configs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Does nothing yet: :meth:`open` opens the session.

        Args:
            image: Name of a Limpet image.
            dockerfile: Path of a Dockerfile that begins with ``FROM limpet:default``; the ``docker`` command builds it.
            lang: Language of the code that :meth:`run` takes.
            keep_template: Whether an image that was built from ``dockerfile`` stays.
            verbose: Whether calls are logged, by the logger ``limpet.llm_sandbox``.
            backend: Taken and ignored: the engine is the controller's.
            client: Client of Limpet; by default one of its own.
            container_id: A :attr:`container_id` of before: that session is used, and :meth:`close` leaves it open.
            workdir: Where commands run; made where it is missing.
            libraries: Installed by :meth:`open`.
            default_timeout: Seconds for each call; None: a day.
            execution_timeout: The same, and before it.
            session_timeout: Seconds after which the session is closed, whatever it does.
            runtime_configs: ``mem_limit``, ``cpu_count``, ``pids_limit``, ``environment`` and ``network_mode``.
            **options: Options of :meth:`limpet.Client.open`.
        """
        if image is not None and dockerfile is not None:
            raise ValidationError("Only one of 'image' or 'dockerfile' can be provided, not both")
        if client is not None and not isinstance(client, Client):
            raise ValidationError(f"client takes a limpet.Client here, not {type(client).__name__}")
        self.lang, self.workdir, self.verbose, self.keep_template = str(lang), workdir, verbose, keep_template
        self.is_open = False
        self._dockerfile, self._wanted = dockerfile, container_id
        self._libraries = list(libraries or ())
        self._timeout = execution_timeout or default_timeout or FOREVER
        self._lifetime = session_timeout
        self._options = {**_runtime(runtime_configs or {}), **options, "image": image}
        self._client, self._owns_client = client, client is None
        self._session: Session | None = None
        self._built = False  # the image, from the Dockerfile
        self._timer: threading.Timer | None = None
        self._log = logging.getLogger("limpet.llm_sandbox").info if verbose else _nothing

    def open(self) -> None:
        """Opens the session, and installs ``libraries``."""
        if self.is_open:
            return
        try:
            with _told():
                self._session = self._found_or_opened()
            self.is_open = True
            self._begin(self._session)
        except BaseException:
            self.close()
            raise

    def _found_or_opened(self) -> Session:
        self._client = self._client or Client()
        if self._wanted is not None:
            return references.attach(self._client, self._wanted)
        if self._dockerfile is not None:
            self._options["image"] = dockerfiles.build(self._dockerfile)
            self._built = True
        return self._client.open(**self._options)

    def close(self) -> None:
        """Ends the session and removes its container, unless another program made it."""
        timer, self._timer = self._timer, None
        if timer is not None and timer is not threading.current_thread():
            timer.cancel()
            timer.join()
        session, self._session, self.is_open = self._session, None, False
        if session is not None and self._wanted is None:
            with _told():
                session.close()
        if self._built and not self.keep_template:
            self._built = False
            dockerfiles.remove(self._options["image"])
        if self._owns_client and self._client is not None:
            self._client.close()
            self._client = None

    @property
    def container_id(self) -> str:
        """What another ``SandboxSession(container_id=...)`` uses the same session by."""
        return references.reference(self._opened())

    @property
    def limpet(self) -> Session:
        """The session itself, for checkpoints, branches and all else that llm-sandbox does not have."""
        return self._opened()

    def run(
        self,
        code: str,
        libraries: list[str] | None = None,
        timeout: float | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ExecutionResult:
        """Runs code. Its variables stay for the next call.

        Args:
            code: In the language of the session.
            libraries: Installed before.
            timeout: Seconds.
            on_stdout: Gets text while the code runs.
            on_stderr: Likewise.

        Returns:
            What it wrote, up to 10 MiB of each stream, its exit code as if it had been a program, and its figures as
            ``plots``. A traceback, and what became of the variables where they were not kept, is at the end of
            ``stderr``.

        Raises:
            SandboxTimeoutError: It reached its time limit. The session goes on.
        """
        session = self._opened()
        self.install(libraries)
        self._log("running %d characters of %s", len(code), self.lang)
        out, err = _Heard(on_stdout), _Heard(on_stderr)
        with _told():
            result = session.run(
                code, timeout or self._timeout, on_stdout=out, on_stderr=err, language=self._language()
            )
            check_ran(result)
        _check_time(result, timeout or self._timeout)
        last = list(_trailer(result))
        for line in last:
            if on_stderr is not None:
                on_stderr(line)
        return ExecutionResult(exit_code_of_code(result), _noted(out, err, *last), out.text, _plots(result))

    def execute_command(
        self,
        command: str,
        workdir: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ConsoleOutput:
        """Runs a line of bash.

        Args:
            command: The line.
            workdir: Where it runs.
            on_stdout: Gets text while it runs.
            on_stderr: Likewise.

        Raises:
            SandboxTimeoutError: It reached the time limit of the session.
        """
        if not command:
            raise CommandEmptyError
        session = self._opened()
        self._log("running %s", command)
        out, err = _Heard(on_stdout), _Heard(on_stderr)
        with _told():
            where = _inside(workdir or self.workdir)
            result = session.exec(command, cwd=where, timeout=self._timeout, on_stdout=out, on_stderr=err)
            check_ran(result)
        _check_time(result, self._timeout)
        code = exit_code(result)
        return ConsoleOutput(1 if code is None else code, _noted(out, err), out.text)

    def execute_commands(
        self,
        commands: Sequence[str | tuple[str, str | None]],
        workdir: str | None = None,
        on_stdout: OnText | None = None,
        on_stderr: OnText | None = None,
    ) -> ConsoleOutput:
        """Runs commands one after the other until one fails, and returns what the last of them gave.

        Args:
            commands: Lines of bash, or pairs of a line and where it runs.
            workdir: Where those run that do not say.
            on_stdout: Gets text while they run.
            on_stderr: Likewise.
        """
        output = ConsoleOutput(exit_code=0)
        for command in commands:
            line, where = (command, workdir) if isinstance(command, str) else command
            output = self.execute_command(line, where, on_stdout, on_stderr)
            if output.exit_code:
                break
        return output

    def copy_to_runtime(self, src: str, dest: str) -> None:
        """Copies a file or a directory into the sandbox; directories are made."""
        session, path = self._opened(), _inside(dest)
        if not os.path.exists(src):
            raise FileNotFoundError(f"Source path {src} does not exist or is not accessible")
        self._log("copying %s to %s", src, dest)
        with _told():
            session.put(os.fspath(src), path)

    def copy_from_runtime(self, src: str, dest: str) -> None:
        """Copies a file or a directory out of the sandbox; directories are made."""
        session, path = self._opened(), _inside(src)
        self._log("copying %s to %s", src, dest)
        os.makedirs(os.path.dirname(os.path.abspath(dest)), exist_ok=True)
        with _told():
            session.get(path, os.fspath(dest))

    def install(self, libraries: Sequence[str] | None = None) -> None:
        """Installs Python packages for this session.

        Args:
            libraries: Requirements, as pip has them.

        Raises:
            LibraryInstallationNotSupportedError: The session is one of another language.
            ContainerError: They could not be installed; the message says why.
        """
        if not libraries:
            return
        session = self._opened()
        if self._language() is not None:
            raise LibraryInstallationNotSupportedError(self.lang)
        with _told():
            session.install(list(libraries))

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self, session: Session) -> None:
        with _told():
            if (language := self._language()) is not None:
                try:
                    session.context(language=language)
                except BadRequest as refused:
                    raise LanguageNotSupportedError(f"{self.lang} ({refused})") from refused
            if _inside(self.workdir) != HOME:
                session.files.mkdir(_inside(self.workdir))
        self.install(self._libraries)
        if self._lifetime:
            self._timer = threading.Timer(self._lifetime, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        with suppress(ContainerError):
            self.close()

    def _opened(self) -> Session:
        session = self._session
        if session is None:
            raise NotOpenSessionError
        return session

    def _language(self) -> str | None:
        return None if self.lang == "python" else self.lang


class _Heard(Kept):
    """Text as it comes, its beginning kept and all of it passed on."""

    def __init__(self, listener: OnText | None) -> None:
        super().__init__()
        self._listener = listener

    def __call__(self, text: str) -> None:
        self.add(text)
        if self._listener is not None:
            self._listener(text)


def _noted(out: _Heard, err: _Heard, *last: str) -> str:
    """What is said on standard error: what code wrote there, and where only the beginning is kept."""
    return "".join([err.text, out.note("stdout"), err.note("stderr"), *last])


@contextmanager
def _told() -> Iterator[None]:
    """Failures of the sandbox, as llm-sandbox has them. Those of files are built-in exceptions and stay so."""
    try:
        yield
    except OSError:
        raise
    except Error as failed:
        raise ContainerError(f"{failed.name}: {failed.message}") from failed


def _inside(path: str) -> str:
    """A path in the sandbox. Raises SecurityError for one that climbs."""
    pure = PurePosixPath(path)
    if ".." in pure.parts:
        raise SecurityError(f"Path traversal detected in container path: {path}")
    if pure.is_relative_to(WORKDIR):
        pure = PurePosixPath(HOME) / pure.relative_to(WORKDIR)
    return str(pure)


def _runtime(configs: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(configs.keys() - RUNTIME.keys())
    if unknown:
        raise ValidationError(
            f"runtime_configs takes {', '.join(RUNTIME)} here, not {', '.join(unknown)}; "
            "see limpet.Client.open() for more options"
        )
    options = {RUNTIME[name]: value for name, value in configs.items()}
    if isinstance(options.get("env"), (list, tuple)):
        options["env"] = dict(pair.split("=", 1) for pair in options["env"])
    return options


def _check_time(result: Result, limit: float) -> None:
    if result.status == "timeout":
        said = f". {result.warning}" if result.warning else ""
        raise SandboxTimeoutError(
            f"Operation timed out after {limit:g} seconds{said}", timeout_duration=limit
        )


def _trailer(result: Result) -> Iterator[str]:
    """What a program would have written last, and what became of the variables."""
    if result.error is not None and result.error.name != "SystemExit":
        yield f"{result.error.traceback.rstrip() or f'{result.error.name}: {result.error.message}'}\n"
    if result.warning:
        yield f"{result.warning}\n"


def _plots(result: Result) -> list[PlotOutput]:
    return [
        PlotOutput(FORMATS[image.mime_type], base64.b64encode(image.data).decode())
        for image in result.images
        if image.mime_type in FORMATS
    ]


def _nothing(*ignored: object) -> None:
    pass
