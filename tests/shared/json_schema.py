"""Compares JSON with a schema, as far as our schemas go.

A keyword that is not known here is an error, so that nothing stands in a schema unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: JSON as Python has it.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
#: Keywords that check nothing.
WORDS = {"$schema", "title", "description"}
KINDS: dict[str, Callable[[Json], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def strings(value: Json) -> list[str]:
    """A list of strings, or one string, as a list."""
    found = value if isinstance(value, list) else [value]
    return [word for word in found if isinstance(word, str)]


def holds(keyword: str, wanted: Json, value: Json) -> bool:
    """Whether a value meets one keyword; numbers' keywords say nothing of null, and so on."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    bound = wanted if isinstance(wanted, int | float) else 0
    checks: dict[str, Callable[[], bool]] = {
        "type": lambda: any(KINDS[kind](value) for kind in strings(wanted)),
        "const": lambda: value == wanted and type(value) is type(wanted),
        "enum": lambda: isinstance(wanted, list) and value in wanted,
        "minimum": lambda: number is None or number >= bound,
        "maximum": lambda: number is None or number <= bound,
        "pattern": lambda: (
            not isinstance(value, str) or re.search(str(wanted), value, re.ASCII) is not None
        ),
        "maxItems": lambda: not isinstance(value, list) or len(value) <= bound,
        "uniqueItems": lambda: (
            not isinstance(value, list) or len({repr(item) for item in value}) == len(value)
        ),
    }
    return checks[keyword]()


def problems(schema: Json, value: Json, place: str = "$") -> list[str]:
    """Sentences about what does not fit; KeyError for a keyword that is not known."""
    assert isinstance(schema, dict)
    found = []
    known = schema.get("properties", {})
    assert isinstance(known, dict)
    for keyword, wanted in schema.items():
        if keyword in WORDS:
            continue
        if keyword == "properties":
            if isinstance(value, dict):
                for name in known.keys() & value.keys():
                    found += problems(known[name], value[name], f"{place}.{name}")
        elif keyword == "required":
            if isinstance(value, dict):
                absent = [name for name in strings(wanted) if name not in value]
                found += [f"{place}: {name} is missing" for name in absent]
        elif keyword == "additionalProperties":
            assert wanted is False
            if isinstance(value, dict):
                found += [f"{place}: {name} is unknown" for name in value.keys() - known.keys()]
        elif keyword == "items":
            for number, item in enumerate(value if isinstance(value, list) else []):
                found += problems(wanted, item, f"{place}[{number}]")
        elif not holds(keyword, wanted, value):
            found.append(f"{place}: {value!r} does not meet {keyword} {wanted!r}")
    return found
