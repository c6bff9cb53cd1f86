"""Pages for people and for programs that find their way by themselves: the OpenAPI document and what it says."""

from __future__ import annotations
