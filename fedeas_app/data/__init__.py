"""Labelled images, decoded once and memory-mapped, and their spread over clients."""

from fedeas_app.data.own import classes_and_shape, load_own, load_test_dataset
from fedeas_app.data.partitions import counts, partition, partition_digest
from fedeas_app.data.scenarios import observed_counts, observed_labels
from fedeas_app.data.split import Split, SplitName, load_split

__all__ = [
    "Split",
    "SplitName",
    "classes_and_shape",
    "counts",
    "load_own",
    "load_split",
    "load_test_dataset",
    "observed_counts",
    "observed_labels",
    "partition",
    "partition_digest",
]
