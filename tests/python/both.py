"""One test for both clients: the asyncio one with methods that wait."""

import asyncio
import inspect

import limpet


class Waiting:
    """An AsyncClient or AsyncSession whose methods run its loop until they are done."""

    def __init__(self, loop, inner):
        self.loop, self.inner = loop, inner

    def __getattr__(self, name):
        value = getattr(self.inner, name)
        return self._waiting(value) if inspect.iscoroutinefunction(inspect.unwrap(value)) else value

    def __repr__(self):
        return repr(self.inner)

    def __enter__(self):
        return self._waiting(self.inner.__aenter__)() and self

    def __exit__(self, *error):
        return self._waiting(self.inner.__aexit__)(*error)

    def _waiting(self, method):
        def call(*arguments, **named):
            arguments = [getattr(argument, "inner", argument) for argument in arguments]
            returned = self.loop.run_until_complete(method(*arguments, **named))
            return Waiting(self.loop, returned) if isinstance(returned, limpet.AsyncSession) else returned

        return call


KINDS = ["blocking", "asyncio"]


def client(kind, *arguments, **named):
    """A context manager."""
    if kind == "blocking":
        return limpet.Client(*arguments, **named)
    return _Looping(limpet.AsyncClient(*arguments, **named))


class _Looping(Waiting):
    def __init__(self, inner):
        super().__init__(asyncio.new_event_loop(), inner)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.loop.close()
