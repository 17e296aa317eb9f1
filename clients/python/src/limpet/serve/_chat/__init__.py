"""A conversation with a model that has the session: what the chat of the web page is made of."""

from __future__ import annotations

from ._conversation import Chats, Conversation

__all__ = ["Chats", "Conversation"]
