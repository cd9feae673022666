"""Labels of a store that mean a leak to the model that is evaluated on it."""

from dataclasses import replace

from leakdet.config import LabelsConfig
from leakdet.detection.label_view import label_key, label_view, renamed
from leakdet.detection.labels import LabelMap
from leakdet.errors import InputError
from leakdet.storage.store import StoreSplit


def labels_for(model: LabelMap, split: StoreSplit, given: LabelsConfig) -> LabelsConfig:
    """Label settings under which a model is evaluated on a split, as it was opened.

    What was renamed or left out in training is so here. Leaks are those that are `given`; else
    those of the model, where it knows every label; else those of the store.

    Raises:
        InputError: store and model disagree on what a label means; see also `label_view`.
    """
    there = {label_key(name) for name in split.label_names}
    known = {label_key(label): name for label, name in model.name_of_label.items()}
    mine = {label_key(name) for name in (*given.rename, *given.ignore)}
    taken_over = {key: name for key, name in known.items() if key in there - mine}
    rename = {key: name for key, name in taken_over.items() if name and label_key(name) != key}
    settings = replace(
        given,
        rename={**rename, **given.rename},
        ignore=[*given.ignore, *(key for key, name in taken_over.items() if name is None)],
    )
    where = str(split.files[0].parent)
    names = {name for name in renamed(split.label_names, settings, where).values() if name}
    leaks_of_model = {label_key(name) for name in model.leak_labels}
    known_names = {label_key(name) for name in known.values() if name is not None}
    leaks = [name for name in sorted(names) if label_key(name) in leaks_of_model]
    if not given.leak and leaks and all(label_key(name) in known_names for name in names):
        settings = replace(settings, leak=leaks)
    view = label_view(split.label_names, settings, where, split.leak_labels, flags=True)
    disputed = [
        name
        for name in view.names
        if label_key(name) in known_names
        and (label_key(name) in leaks_of_model) != (name in view.leaks)
    ]
    if disputed and not given.leak:
        raise InputError(
            f"{where}: model and store disagree on whether {', '.join(disputed)} "
            f"{'means' if len(disputed) == 1 else 'mean'} a leak (model: "
            f"{', '.join(model.leak_labels)}; store: {', '.join(view.leaks)}). Name the leaks: "
            "--leak NAME, once for each."
        )
    return replace(settings, leak=list(view.leaks))
