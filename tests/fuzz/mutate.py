"""Seeded changes to files: bytes, lines, cells of CSV, pairs of LIBSVM, and values of nested records."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

CELLS = [
    *(
        "",
        " ",
        "0",
        "-0",
        "1",
        "7",
        "-1e3",
        "1e308",
        "1e309",
        "-1e400",
        "1e-320",
        "9" * 40,
        "9223372036854775808",
        "+5",
    ),
    *("nan", "NaN", "NA", "N/A", "null", "NULL", "#N/A", "inf", "-Infinity", "1.#IND", "-nan", "None", "0x10", "1_000"),
    *("true", "False", "yes", "other", "missing", "2026-01-31", "2026-01-31 10:00:00", "12:30", "1,5", "5 %", "007"),
    *("Zürich", "Zu\u0308rich", "\u200b", "\ufeff", "\u2028", "\x00", "\x1b[31m", "\u0661", "é" * 400, "x" * 5000, "'"),
    *('"', '""', '"x', 'x"y', '"x"y', '"a\nb"', '"a,b"', "\t", ";", "=1+1", "-", ".", "e5", "1e", "1 2", "\r"),
]
BYTES = [
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\n", b"\r", b"\r\n", b"\n\n", b'"', b"'", b",", b";", b"\t"),
    *(b":", b"[", b"]", b"[[", b"{", b"}", b"=", b"#", b"\\", b"\\u0000", b"nan", b"inf", b"1e999", b"-", b"--"),
    *(b"9" * 30, b"\xe2\x80\xa8", b"'''", b"1979-05-27", b"true", b"null", b"\xc3", b"\xed\xa0\x80", b".", b"0x"),
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e308, 1e-320, -0.0, 10**9, 10**30, 10**400, 2**63, 1e-9, 50, 200),
    *("", " ", "x", "none", "auto", "nan", "infinity", "1", "0.5", "x" * 3000, "\x00", "a/b", "..", "joint", "é\u2028"),
    *([], {}, [[]], [{}], {"": 0}, [None], ["a"], [1, 2], ["a", "a"], {"a": 1}, {"a": {"b": []}}, [1.0, "x"], "label"),
]


class Mutator:
    """Changes drawn from one seed, so that every input can be made again."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    # --- any file --------------------------------------------------------------------------------------

    def content(self, content: bytes, most: int = 3) -> bytes:
        """Change bytes in a few places, or cut the file."""
        data = bytearray(content)
        for _ in range(self.random.randint(1, most)):
            start = self.random.randint(0, len(data))
            stop = min(len(data), start + self.random.randint(0, 9))
            choice = self.random.randrange(7)
            if choice == 0 and len(data):
                data[start - 1] ^= 1 << self.random.randrange(8)
            elif choice == 1:
                data[start:start] = self.random.choice(BYTES)
            elif choice == 2:
                data[start:stop] = self.random.choice(BYTES)
            elif choice == 3:
                del data[start:stop]
            elif choice == 4:
                data[start:start] = data[start:stop] * self.random.randint(1, 40)
            elif choice == 5:
                del data[start:]
            else:
                data = bytearray(self.lines(bytes(data)))
        return bytes(data)

    def lines(self, content: bytes) -> bytes:
        """Repeat, remove or exchange lines."""
        lines = content.split(b"\n")
        one, two = self.random.randrange(len(lines)), self.random.randrange(len(lines))
        choice = self.random.randrange(4)
        if choice == 0:
            lines.insert(two, lines[one])
        elif choice == 1:
            del lines[one]
        elif choice == 2:
            lines[one], lines[two] = lines[two], lines[one]
        else:
            lines[one:one] = [b""] * self.random.randint(1, 3)
        return b"\n".join(lines)

    # --- tables ----------------------------------------------------------------------------------------

    def table(self, content: bytes) -> bytes:
        """Change a CSV file: cells, columns, header, separator, or bytes."""
        choice = self.random.randrange(10)
        if choice < 2:
            return self.content(content)
        rows = [line.split(",") for line in content.decode().split("\n")[:-1]]
        if choice == 2:
            self._columns(rows)
        elif choice == 3:
            rows[0][self.random.randrange(len(rows[0]))] = self.random.choice([*rows[0], *CELLS])
        elif choice == 4:
            return b"\n".join(self.random.choice(";\t| ,").join(row).encode() for row in rows)
        else:
            self._cells(rows)
        end = self.random.choice(["\n", "\n", "\n", "\r\n", "\r"])
        return (end.join(",".join(row) for row in rows) + self.random.choice([end, end, "", end * 2])).encode()

    def _cells(self, rows: list[list[str]]) -> None:
        for _ in range(self.random.choice([1, 1, 1, 2, 5])):
            row = rows[self.random.randrange(1, len(rows))]
            column = self.random.randrange(len(row))
            other = rows[self.random.randrange(1, len(rows))]
            choice = self.random.randrange(8)
            if choice == 0:
                row.pop(column)
            elif choice == 1:
                row.insert(column, row[column])
            elif choice == 2:
                row[column] = '"' + row[column].replace('"', '""') + '"'
            elif choice == 3 and column < len(other):
                row[column], other[column] = other[column], row[column]
            else:
                row[column] = self.random.choice(CELLS)
            if not row:
                row.append("")

    def _columns(self, rows: list[list[str]]) -> None:
        column, choice = self.random.randrange(len(rows[0])), self.random.randrange(3)
        filler = self.random.choice(CELLS)
        for row in rows:
            if choice == 0:
                row.pop(column)
            elif choice == 1:
                row.append(row[column])
            else:
                row[column] = row[column] if row is rows[0] else filler

    def sparse(self, content: bytes) -> bytes:
        """Change a LIBSVM file: labels, pairs, or bytes."""
        if self.random.randrange(3) == 0:
            return self.content(content)
        rows = [line.split(" ") for line in content.decode().split("\n")[:-1]]
        for _ in range(self.random.choice([1, 1, 2])):
            row = self.random.choice(rows)
            place = self.random.randrange(len(row))
            cell = self.random.choice([cell for cell in CELLS if "\n" not in cell and "\r" not in cell])
            number = self.random.choice(
                ["0", "-1", "1", "2", "5", "9", "1_0", "99999999999", "3.0", "", "+4", "x", "qid"]
            )
            change = [f"{number}:{cell}", cell, row[place] + cell, f"{number}:1", ":", "#", f"{number}:0.5 # {cell}"]
            if place == 0:
                change = [cell, *change]
            row[place] = self.random.choice(change)
            if self.random.randrange(6) == 0:
                self.random.shuffle(row)
        return ("\n".join(" ".join(row) for row in rows) + "\n").encode()

    # --- records ---------------------------------------------------------------------------------------

    def record(self, record: Any, most: int = 2, values: list[Any] = VALUES) -> Any:
        """Change values, keys and the order inside nested lists and tables."""
        record = copy.deepcopy(record)
        for _ in range(self.random.randint(1, most)):
            places = [place for place in _places(record) if place[0]]
            if not places:
                return self.random.choice(values)
            holder, key = self.random.choice(places)
            self._change(holder, key, values)
        return record

    def _change(self, holder: Any, key: Any, values: list[Any]) -> None:
        choice = self.random.randrange(9)
        value = holder[key]
        if choice == 0:
            del holder[key]
        elif choice == 1 and isinstance(holder, dict):
            holder[self.random.choice([str(key) + "s", "unknown", "", "x" * 900, "é", str(key).upper()])] = value
        elif choice == 1:
            holder.insert(key, copy.deepcopy(value))
        elif choice == 2:
            holder[key] = [value]
        elif choice == 3:
            holder[key] = {"value": value}
        elif choice == 4 and isinstance(value, int | float) and not isinstance(value, bool):
            holder[key] = self.random.choice(
                [-value, value * 10, value + 1, str(value), value // 3, float(int(min(abs(value), 1e9)))]
            )
        elif choice == 5 and isinstance(value, list):
            self.random.shuffle(value)
        else:
            holder[key] = copy.deepcopy(self.random.choice(values))

    def json(self, content: bytes) -> bytes:
        """Change a JSON file: values, bytes, or how deep it goes."""
        choice = self.random.randrange(10)
        if choice < 3:
            return self.content(content)
        text = json.dumps(self.record(json.loads(content)), ensure_ascii=False)
        if choice == 3:
            old, new = self.random.choice([("1", "NaN"), (":", ": -Infinity,"), ("0", "1e999"), ("{", "[" * 3000)])
            text = text.replace(old, new, 1)
        elif choice == 4:
            deep = 10 ** self.random.randint(1, 5)
            text = text.replace("}", ', "deep": ' + "[" * deep + "]" * deep + "}", 1)
        elif choice == 5 and text.startswith("{") and '"' in text:
            text = "{" + text[1:-1] + ", " + text[1:]  # every key twice
        return text.encode("utf-8", "surrogatepass")

    def toml(self, record: Any, values: list[Any]) -> bytes:
        """A job file with changed values, or with changed bytes."""
        if self.random.randrange(4) == 0:
            return self.content(toml(record).encode(), 2)
        text = toml(self.record(record, values=values))
        return (
            self.content(text.encode("utf-8", "surrogatepass"), 1) if self.random.randrange(12) == 0 else text.encode()
        )


def toml(record: Any) -> str:
    """A table of values as TOML: sections first, then inline tables."""
    if not isinstance(record, dict):
        return _literal(record)
    lines = [f"{_literal(key)} = {_literal(value)}" for key, value in record.items() if not _is_section(value)]
    for key, value in record.items():
        if _is_section(value):
            for one in value if isinstance(value, list) else [value]:
                lines.append(f"[[{_literal(key)}]]" if isinstance(value, list) else f"[{_literal(key)}]")
                lines += [f"{_literal(own)} = {_literal(item)}" for own, item in one.items()]
    return "\n".join(lines) + "\n"


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and all(type(v) is dict for v in value))


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_literal(key)} = {_literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)
    if value is None:
        return '"none"'
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf"
    return json.dumps(value)


def _places(record: Any) -> list[tuple[Any, Any]]:
    """Every place of a nested record: the list or table, and the key in it."""
    found: list[tuple[Any, Any]] = []
    if isinstance(record, dict):
        for key, value in record.items():
            found += [(record, key), *_places(value)]
    elif isinstance(record, list):
        for key, value in enumerate(record):
            found += [(record, key), *_places(value)]
    return found
