"""The client's side: one round of the generator's training, and what is sent of it."""

from flwr.app import ArrayRecord

from fedeas_app import seeds
from fedeas_app.client import Client
from fedeas_app.devices import resolve_device
from fedeas_app.errors import PublicError
from fedeas_app.generators.federated.local import train_locally
from fedeas_app.generators.federated.network import make_network
from fedeas_app.generators.federated.transfer import joined, parted
from fedeas_app.local import Examples


def train_generator(
    client: Client, server_round: int, arrays: ArrayRecord
) -> tuple[ArrayRecord, float]:
    """Train the global network on a client's real images; return its weights and the mean loss.

    Parameters
    ----------
    client : Client
    server_round : int
        From 1.
    arrays : ArrayRecord
        The global network's weights as they travel; what is returned has their form, at float32.

    Raises
    ------
    PublicError
        They are not those of the network, or training diverged.
    """
    data, settings = client.dataset, client.settings
    unet = make_network(settings, data.image_shape, len(data.class_names))
    try:
        weights = parted(arrays, ArrayRecord(unet.state_dict()))
        unet.load_state_dict(weights.to_torch_state_dict())
    except (RuntimeError, ValueError, TypeError) as error:
        raise PublicError(
            "The generator's weights that the server sent do not fit the network; run the same "
            "version of the app on every node."
        ) from error
    device = resolve_device(settings.device)
    images = data.images[client.indices]
    examples = Examples.from_arrays(images, client.labels).to(device)
    rng = seeds.torch_rng("generator-train", settings.seed, server_round, client.partition_id)
    loss = train_locally(unet.to(device), examples, settings, server_round, rng)
    return joined(ArrayRecord(unet.state_dict())), loss
