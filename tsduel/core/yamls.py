"""YAML as a person writes it: what is none, or would fill the memory, is a sentence with file and line."""

from typing import Any

import yaml

from tsduel.core.errors import UserError

MOST = 1_000_000
"""Values of a file, each as often as an alias repeats it: a line of aliases of aliases is a billion."""


def load(text: str, where: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """Return what a text holds; a UserError names ``where`` with its line."""
    first, *others = documents(text, where, loader) or [None]
    if others:
        raise UserError(f"{where}: it has {len(others) + 1} documents, with --- between them; write one")
    return first


def documents(text: str, where: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> list[Any]:
    """Return what each document of a text holds; a UserError names ``where`` with its line."""
    try:
        reader, found = loader(text), []
        while reader.check_node():
            node = reader.get_node()
            if node and _size(node, {}) > MOST:
                raise UserError(f"{where}: its aliases make more than {MOST:,} values of it; write out what is meant")
            found.append(reader.construct_document(node))
        return [document for document in found if document is not None]  # as behind a last ---
    except RecursionError:
        raise UserError(f"{where}: not YAML: it is nested too deeply; write less") from None
    except yaml.reader.ReaderError as error:
        at = text.count("\n", 0, error.position) + 1
        raise UserError(f"{where}:{at}: not YAML: it has the character {chr(error.character)!r}; remove it") from None
    except (yaml.YAMLError, ValueError, AttributeError) as error:  # not only the first for !!timestamp 2025-13-45
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        mend = "mend this line"
        if mark and "{{" in "".join(text.split("\n")[mark.line : mark.line + 1]):
            mend = "write a text that begins with braces in quotes, and render a template before (helm template)"
        raise UserError(f"{where}{line}: not YAML: {getattr(error, 'problem', error)}; {mend}") from None


def texts(values: Any) -> Any:
    """Return a mapping of lists with numbers as they are written, and one value as a list; anything else as it is.

    A ValueError names a value of which YAML has made another: NO, off, null.
    """
    if not isinstance(values, dict):
        return {} if values is None else values
    lists = {name: value if isinstance(value, list | tuple) else [value] for name, value in values.items()}
    for name, value in lists.items():
        if other := [one for one in value if one is None or isinstance(one, bool)]:
            raise ValueError(f"{name}: YAML reads a word of it as {other[0]}: write it in quotes")
    return {name: tuple(map(str, value)) for name, value in lists.items()}


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values a node is, with those that its aliases repeat; without end if it is in itself."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = MOST + 1  # as long as it is not counted
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
        inner = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in inner)
    return sizes[id(node)]


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse a key that is there twice, of which PyYAML takes the last, as where two files were put into one."""
    names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
    if len(set(names)) < len(names):
        key = next(key for key, _ in reversed(node.value) if names.count(key.value) > 1)
        first = next(other for other, _ in node.value if other.value == key.value)
        problem = f"the key {key.value} is there twice, first in line {first.start_mark.line + 1}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
