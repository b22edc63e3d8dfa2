"""What a pretrained pipeline calls the classes of the dataset."""

import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings

SLOT = "{class}"


def words(settings: Settings, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a word for each class of the dataset: the user's, or else the dataset's own.

    Raises
    ------
    UserError
        There is not exactly one for each class, or one stands for two.
    """
    if not settings.generator_classes:
        return class_names
    given = tuple(word.strip() for word in settings.generator_classes.split(","))
    if len(given) != len(class_names) or not all(given):
        raise UserError(
            f"generator-classes names {sum(map(bool, given))} classes, but the dataset has "
            f"{len(class_names)}; give one name for each of {_some(class_names)}, with commas."
        )
    return given


def prompts(template: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return a prompt for each class; an underscore in its name is read as a space.

    Raises
    ------
    UserError
        The template has no place for a name, or two classes have one prompt.
    """
    if SLOT not in template:
        raise UserError(
            f"generator-prompt is {template!r}, which is the same for every class; write {SLOT} "
            "where the name of the class is to be."
        )
    made = tuple(template.replace(SLOT, name.replace("_", " ")) for name in names)
    _require_different(names, made)
    return made


def class_ids(
    generator: str, names: Sequence[str], id2label: Mapping[str, str], count: int, *, numbers: bool
) -> tuple[int, ...]:
    """Return the id of each class in a class-conditional pipeline.

    Parameters
    ----------
    generator : str
        For messages.
    names : sequence of str
        Names that the pipeline knows, in any case, with spaces or underscores.
    id2label : mapping
        From its ids to what they are called: several names with commas between them.
    count : int
        Its classes: ids are less.
    numbers : bool
        Whether a name may also be an id. The dataset's own may not: its class "7" is a digit, and
        id 7 of a pipeline is something else.

    Raises
    ------
    UserError
        Names the first class that the pipeline does not know, or knows twice.
    """
    known = _ids_by_name(id2label)
    found: list[int] = []
    for name in names:
        ids = known.get(_plain(name), set())
        if not ids and numbers and name.isdecimal() and int(name) < count:
            ids = {int(name)}
        if len(ids) != 1:
            raise UserError(_not_one(generator, name, ids, known, count))
        found.extend(ids)
    _require_different(names, found)
    return tuple(found)


def _ids_by_name(id2label: Mapping[str, str]) -> dict[str, set[int]]:
    ids = defaultdict(set)
    for number, text in id2label.items():
        for name in (text, *text.split(",")):
            ids[_plain(name)].add(int(number))
    return dict(ids)


def _plain(name: str) -> str:
    return " ".join(name.replace("_", " ").casefold().split())


def _not_one(
    generator: str, name: str, ids: set[int], known: Mapping[str, set[int]], count: int
) -> str:
    """Say that a name means no class of the pipeline, or several."""
    if ids:
        return (
            f"The generator {generator} calls {len(ids)} classes {name!r}; in generator-classes "
            f"give the number of one: {', '.join(map(str, sorted(ids)))}."
        )
    near = difflib.get_close_matches(_plain(name), known, n=3)
    hint = f" (near: {', '.join(map(repr, near))})" if near else ""
    kinds = "names or numbers" if known else "it has no names, so numbers"
    return (
        f"The generator {generator} knows no class {name!r}{hint}; say in generator-classes what "
        f"it calls each class ({kinds} below {count}, with commas)."
    )


def _require_different(names: Sequence[str], meanings: Sequence[object]) -> None:
    for later, meaning in enumerate(meanings):
        first = meanings.index(meaning)
        if first != later:
            raise UserError(
                f"The classes {names[first]!r} and {names[later]!r} are the same to the generator "
                f"({meaning!r}), so half of the images would have a wrong label; tell them apart "
                "in generator-classes."
            )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
