"""The variables on their way to a directory of the sandbox and back. What does it is imported when it is wanted."""

from limpet_runtime import library

MISSING = 100  # notes at most: LIMIT_RESTORED


def save(path, whole, channel):
    """Why it could not be done, or None; and an empty list. `whole`: no variable may lack room, memory or time.
    `channel`: they are put beside the memory that is there, until that can be read; -1: there is nothing yet."""
    with library.Library():
        try:
            from limpet_saving import saving
        except ImportError as error:
            return f"the image lacks what pickles variables ({error}); add Debian's package python3-cloudpickle", []
    return saving.save(path, whole, channel), []


def load(path):
    """Why it could not be done, or None; and notes of what is not as it was."""
    with library.Library():
        try:
            from limpet_saving import loading
        except ImportError as error:
            return f"the image lacks what unpickles variables ({error}); add Debian's package python3-cloudpickle", []
    try:
        notes = loading.load(path)
    except loading.NotLoaded as error:
        return str(error), []
    if len(notes) > MISSING:
        notes[MISSING - 1 :] = [f"and {len(notes) - MISSING + 1} more"]
    return None, notes
