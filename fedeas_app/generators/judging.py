"""How good a generator's images are, judged by what a classifier of real images makes of them.

A small network is trained on the real training part. It tells whether an image shows its label, and
its last hidden layer is the space in which the Fréchet distance is taken: a network trained on
ImageNet knows little of small grey images, and would have to be downloaded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedeas_app import seeds
from fedeas_app.data import Split
from fedeas_app.devices import repeatable, resolve_device
from fedeas_app.local.examples import Examples, normalise
from fedeas_app.local.sgd import train_sgd
from fedeas_app.models import Classifier, make_model
from fedeas_app.settings import Settings

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Floats = NDArray[np.float64]
Item = TypeVar("Item", bound=np.generic)

LEAST_RECOGNISED = 0.5  # below this share a generator teaches more wrong labels than right ones
LEAST_OF_REAL = 0.85  # of the share of real images: below it one image in seven or more is wrong

_BATCH = 512
_BLOCK = 1024  # images compared with as many at a time
_COMPARED = 2000  # images whose nearest neighbours are sought: a median needs no more
_SEEN = 30_000  # images shown in training: small data is shown more often
_LEAST_EPOCHS, _MOST_EPOCHS = 8, 100


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes
    ----------
    images : int
        Synthetic images judged.
    accuracy : float
        Of the reference classifier, on the real test part: what `recognised` is to be held against.
    recognised : float
        Share of synthetic images classified as their label.
    recognised_by_class : dict
        The same for each class.
    frechet_images : int
        Synthetic images, and real test images, in each of the following.
    frechet_train, frechet_test : float
        Fréchet distance of the synthetic images to either real part.
    frechet_real : float
        Of the two real parts to each other: as near as an honest sample comes.
    nearest_synthetic, nearest_test : float
        Median distance of synthetic and of real test images to their nearest training image. A far
        smaller first number means that training images were learnt by heart.
    """

    images: int
    accuracy: float
    recognised: float
    recognised_by_class: dict[str, float]
    frechet_images: int
    frechet_train: float
    frechet_test: float
    frechet_real: float
    nearest_synthetic: float
    nearest_test: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as a report holds it."""
        return {
            "images": self.images,
            "classifier-accuracy": self.accuracy,
            "recognised": self.recognised,
            "recognised-by-class": self.recognised_by_class,
            "frechet-distance": {
                "images": self.frechet_images,
                "synthetic-train": self.frechet_train,
                "synthetic-test": self.frechet_test,
                "train-test": self.frechet_real,
            },
            "nearest-training-image": {
                "synthetic": self.nearest_synthetic,
                "test": self.nearest_test,
            },
        }


def judge(images: Images, labels: Labels, train: Split, test: Split, settings: Settings) -> Verdict:
    """Judge synthetic images against a dataset.

    Parameters
    ----------
    images : array of uint8, shape (n, height, width, channels)
        Of the dataset's size.
    labels : array of int64, shape (n,)
        At least one image of every class.
    train, test : Split
    settings : Settings
        Device, threads and the reference classifier's seed.

    Returns
    -------
    Verdict
        The same for the same arguments on the same machine.
    """
    with repeatable(settings.threads):
        model = train_reference(train, settings)
        predicted, synthetic = look(model, images)
        guessed, of_test = look(model, test.images)
        _, of_train = look(model, train.images)
    # The distance shrinks as samples grow: the two that are compared must be of one size.
    same = min(len(synthetic), len(of_test))
    synthetic, of_test = evenly(synthetic, same), evenly(of_test, same)
    shares = recognised_by_class(labels, predicted, len(train.class_names))
    return Verdict(
        images=len(labels),
        accuracy=recognised(test.labels, guessed),
        recognised=recognised(labels, predicted),
        recognised_by_class=dict(zip(train.class_names, shares.tolist(), strict=True)),
        frechet_images=same,
        frechet_train=frechet_distance(of_train, synthetic),
        frechet_test=frechet_distance(of_test, synthetic),
        frechet_real=frechet_distance(of_train, of_test),
        nearest_synthetic=_median_nearest(images, train.images),
        nearest_test=_median_nearest(test.images, train.images),
    )


def train_reference(train: Split, settings: Settings) -> Classifier:
    """Train a small network on the real training part, with options of its own."""
    epochs = min(max(_LEAST_EPOCHS, _SEEN // len(train.labels)), _MOST_EPOCHS)
    own = Settings.parse(
        {
            "seed": settings.seed,
            "local-epochs": epochs,
            "learning-rate": 0.02,
            "weight-decay": 5e-4,
        }
    )
    device = resolve_device(settings.device)
    model = make_model(own, train.image_shape, len(train.class_names)).to(device)
    examples = Examples.from_arrays(train.images, train.labels).to(device)
    train_sgd(model, examples, own, seeds.torch_rng("judging", own.seed))
    return model.eval()


@torch.inference_mode()
def look(model: Classifier, images: Images) -> tuple[Labels, Floats]:
    """Return the classes that a network sees, and its last hidden layer, shape (n, features)."""
    device = next(model.parameters()).device
    classes, features = [], []
    for batch in _slices(len(images), _BATCH):
        planes = torch.from_numpy(np.array(images[batch].transpose(0, 3, 1, 2), order="C"))
        hidden = torch.relu(model.preactivations(normalise(planes.to(device))))
        classes.append(model.head(hidden).argmax(1).cpu().numpy())
        features.append(hidden.flatten(1).cpu().double().numpy())
    return np.concatenate(classes), np.concatenate(features)


def recognised(labels: Labels, predicted: Labels) -> float:
    """Return the share of images classified as their label."""
    return float((labels == predicted).mean())


def recognised_by_class(labels: Labels, predicted: Labels, num_classes: int) -> Floats:
    """Return that share for each class, shape (num_classes,); NaN for a class without images."""
    right = np.bincount(labels[labels == predicted], minlength=num_classes)
    total = np.bincount(labels, minlength=num_classes)
    shares: Floats = np.full(num_classes, np.nan)
    np.divide(right, total, out=shares, where=total > 0)
    return shares


def frechet_distance(first: Floats, second: Floats) -> float:
    """Return the Fréchet distance of two samples, each taken as a Gaussian.

    Heusel et al., "GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash
    Equilibrium", arXiv 1706.08500, equation 6, there over the features of an Inception network.

    Parameters
    ----------
    first, second : array of float, shape (n, features) and (m, features)

    Returns
    -------
    float
        Never negative; 0 for equal means and covariances.
    """
    return gaussian_distance(*_moments(first), *_moments(second))


def gaussian_distance(mean1: Floats, cov1: Floats, mean2: Floats, cov2: Floats) -> float:
    """Return ‖μ₁ - μ₂‖² + tr(Σ₁ + Σ₂ - 2 (Σ₁ Σ₂)^½).

    Parameters
    ----------
    mean1, mean2 : array of float, shape (features,)
    cov1, cov2 : array of float, shape (features, features)
        Symmetric and positive semi-definite; they may be singular.

    Notes
    -----
    Σ₁ Σ₂ has the eigenvalues of the symmetric Σ₁^½ Σ₂ Σ₁^½, whose root needs no complex numbers
    and no inverse. Eigenvalues that rounding made negative are cut off at 0.
    """
    values, vectors = np.linalg.eigh(cov1)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    common = np.sqrt(np.linalg.eigvalsh(root @ cov2 @ root).clip(0)).sum()
    apart = ((mean1 - mean2) ** 2).sum()
    return max(0.0, float(apart + np.trace(cov1) + np.trace(cov2) - 2 * common))


def nearest_distances(images: Images, others: Images, block: int = _BLOCK) -> Floats:
    """Return each image's distance to its nearest among others: L2, pixels from 0 to 1.

    Parameters
    ----------
    images, others : array of uint8, shape (n, ...) and (m, ...)
        Of one size.
    block : int
        Images of either side held as floats at a time.

    Returns
    -------
    array of float, shape (n,)
        Exactly 0 for a copy.
    """
    nearest = np.full(len(images), np.inf)
    for columns in _slices(len(others), block):
        right = _flat(others[columns])
        for rows in _slices(len(images), block):
            squares = _squared_distances(_flat(images[rows]), right).min(axis=1)
            nearest[rows] = np.minimum(nearest[rows], squares)
    distances: Floats = np.sqrt(nearest) / 255
    return distances


def nearest_others(images: Images, places: Labels, block: int = _BLOCK) -> Floats:
    """Return the distance of some images to their nearest other one, as in `nearest_distances`.

    Parameters
    ----------
    images : array of uint8, shape (n, ...)
        Two at least.
    places : array of int64, shape (m,)
        Which of them are asked about; all of them are looked through.
    block : int

    Returns
    -------
    array of float, shape (m,)
        Exactly 0 for an image that is there twice.
    """
    nearest = np.full(len(places), np.inf)
    for columns in _slices(len(images), block):
        right = _flat(images[columns])
        for rows in _slices(len(places), block):
            squares = _squared_distances(_flat(images[places[rows]]), right)
            squares[np.equal.outer(places[rows], np.arange(columns.start, columns.stop))] = np.inf
            nearest[rows] = np.minimum(nearest[rows], squares.min(axis=1))
    distances: Floats = np.sqrt(nearest) / 255
    return distances


def _median_nearest(images: Images, others: Images) -> float:
    return float(np.median(nearest_distances(evenly(images, _COMPARED), others)))


def evenly(items: NDArray[Item], most: int) -> NDArray[Item]:
    """Return at most so many items, from all over: images often lie in order of class."""
    chosen = np.linspace(0, len(items) - 1, min(len(items), most)).round().astype(int)
    spread: NDArray[Item] = items[chosen]
    return spread


def _squared_distances(left: Floats, right: Floats) -> Floats:
    """Return ‖a - b‖² of all pairs, shape (n, m): exact, as all terms are whole numbers."""
    lengths = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    distances: Floats = lengths - 2 * (left @ right.T)
    return distances


def _moments(features: Floats) -> tuple[Floats, Floats]:
    mean = features.mean(axis=0)
    centred = features - mean
    return mean, centred.T @ centred / max(1, len(features) - 1)


def _flat(images: Images) -> Floats:
    flat: Floats = np.asarray(images.reshape(len(images), -1), np.float64)
    return flat


def _slices(total: int, size: int) -> Iterator[slice]:
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))
