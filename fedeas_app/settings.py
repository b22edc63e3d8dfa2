"""The run configuration: the one place that knows the keys, their types and their limits."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedeas_app.clipping import OFF
from fedeas_app.errors import UserError
from fedeas_app.reading import parse_toml, read_text

AUTO: Literal["auto"] = "auto"
_MOST = 10**9  # of anything that is counted; Flower carries no more than 64 bits
OWN = "own"  # in the place of a dataset or a generator: each SuperNode has one of its own
FEDERATED = "federated"  # in the place of a generator: the clients train it first
DEVICE = r"^(auto|cpu|mps|cuda(:(0|[1-9][0-9]*))?)$"
DEVICES_IN_WORDS = "'auto', 'cpu', 'cuda', 'cuda:' with a number, or 'mps'"
Value = bool | int | float | str

Count = Annotated[int, Field(ge=1)]
CountOrAll = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]


# What `own` data must be described by, and what needs a dataset that is shared.
_DESCRIBING = ("classes", "image_size", "image_channels")
_SHARED = ("train_samples", "noisy_fraction", "rare_fraction")
_HIDDEN_LAYERS = {"cnn": 3, "resnet18": 9}
_ALIKE = ("fedavg", "fedprox", "moon", "fedavgm", "fedadam", "fedyogi")
_STEPPING = ("fedavgm", "fedadam", "fedyogi")
_WITHOUT_WEIGHTS = ("fedmedian", "fedtrimmedavg", "krum", "multikrum")
# Of the 1,000 steps that a generator of the clients is trained with, so many can be told apart.
_MOST_STEPS = {"ddpm": 1000, "ddim": 1000, "dpm-solver++": 995}


def kebab(name: str) -> str:
    """Return a field's name as a user writes it."""
    return name.replace("_", "-")


def refuse_relative(key: str, value: str) -> None:
    """Refuse a path that would depend on the directory in which Flower runs the app.

    Raises
    ------
    ValueError
    """
    path = Path(value)
    if not path.is_absolute() and path.parts[:1] != ("~",):
        raise ValueError(
            f"{kebab(key)} is {str(path)!r}; it must be absolute or begin with ~/, because Flower "
            "runs the app in a directory of its own"
        )


class Settings(BaseModel):
    """Everything that decides a run; the defaults are the digits job.

    Keys are written in kebab case in files and on command lines (``num-clients``), in snake case
    here. :meth:`parse` refuses unknown keys, wrong types and impossible values.
    """

    model_config = ConfigDict(
        alias_generator=kebab,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=False,
    )

    # Data
    dataset: str = Field(
        "digits",
        min_length=1,
        description="`digits`, a hub id, a local path (`/…`, `./…`, `../…`, `~/…`), or `own`: each "
        "SuperNode its `data-path`",
    )
    dataset_revision: str = Field("", description="hub branch, tag or commit; empty: the newest")
    dataset_subset: str = Field(
        "",
        description="name of one of the subsets (configurations) of a hub dataset or a folder of "
        "parquet files; empty: the only one, or its default",
    )
    image_column: str = Field("", description="column of the images; empty: found by itself")
    label_column: str = Field("", description="column of the labels; empty: found by itself")
    classes: str = Field(
        "", description="the class list, names with commas; empty: the dataset's; needed with `own`"
    )
    image_size: Annotated[int, Field(ge=0, le=8000)] = Field(
        0, description="resize to this many pixels a side; 0: as stored"
    )
    image_channels: Literal[0, 1, 3] = Field(
        0, description="bring images to grey (1) or colour (3); 0: as stored"
    )
    train_samples: CountOrAll = Field(0, description="use a random subset of this size; 0: all")
    test_samples: CountOrAll = Field(0, description="the same for the test set")
    test_dataset: str = Field(
        "",
        description="with `own`: the server's test set, as for `dataset`; empty: clients test on "
        "images that they hold out",
    )

    # Clients
    num_clients: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["auto"] = Field(
        AUTO,
        description="number of clients; `auto`: all SuperNodes that are connected, or 10 where "
        "`fedeas run` simulates",
    )
    partitioner: Literal["dirichlet", "iid", "classes"] = Field(
        "dirichlet", description="how labels are spread over clients in simulation"
    )
    alpha: Positive = Field(0.1, description="Dirichlet concentration; smaller is more skewed")
    classes_per_client: Count = Field(2, description='for `partitioner = "classes"`')
    min_partition_size: CountOrAll = Field(
        10, description="every simulated client holds at least this many images"
    )
    noisy_fraction: Share = Field(0.0, description="share of the clients with noisy labels")
    noise_rate: Share = Field(0.4, description="share of a noisy client's labels that are wrong")
    rare_fraction: Share = Field(0.0, description="share of the clients that hold few images")
    rare_cap: Count = Field(120, description="the most images that such a client keeps")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, description="one seed, the same bits")

    # Training
    rounds: Count = Field(15, description="communication rounds")
    fraction_train: Fraction = Field(1.0, description="share of the clients in each round")
    local_epochs: Count = Field(2, description="passes over real and synthetic images a round")
    batch_size: Count = Field(32, description="local batch size")
    learning_rate: Positive = Field(0.05, description="local SGD step size")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="local SGD momentum")
    weight_decay: NotNegative = Field(0.0, description="local SGD weight decay")
    augment: bool = Field(False, description="random crop (padded by an eighth) and flip")
    model: Literal["cnn", "resnet18"] = Field("cnn", description="the classifier")
    norm: Literal["group", "batch"] = Field("group", description="normalisation of `resnet18`")

    # Aggregation, and the local algorithm that goes with it
    strategy: Literal[
        "fedavg", "fedprox", "scaffold", "moon", "fedalign", "fedoui", "fedoui-fedalign",
        "fedavgm", "fedadam", "fedyogi", "fedmedian", "fedtrimmedavg", "krum", "multikrum",
    ] = Field("fedoui", description="how clients train and how updates are weighed")  # fmt: skip
    weight_by: Literal["real", "total"] = Field(
        "real", description="n_k counts real images, or real and synthetic ones"
    )
    proximal_mu: NotNegative | Literal["auto"] = Field(
        AUTO, description="μ of FedProx's term; `auto`: 0.01 with `fedprox`, else 0 (none)"
    )
    scaffold_option: Literal["I", "II"] = Field(
        "II", description="a client's new variate: its full gradient (I) or its own steps (II)"
    )
    scaffold_weights: Literal["examples", "clients"] = Field(
        "examples", description="clients count by n_k, or alike, as in SCAFFOLD's paper"
    )
    moon_mu: Positive = Field(5.0, description="μ, the strength of MOON's contrastive term")
    moon_temperature: Positive = Field(0.5, description="τ of MOON's contrastive term")
    align_epsilon: Positive = Field(1e-3, description="ε of FedAlign's weights")
    server_learning_rate: Positive | Literal["auto"] = Field(
        AUTO,
        description="step size of `fedavgm`, `fedadam` and `fedyogi` at the server; `auto`: 1 with "
        "`fedavgm`, else 0.01",
    )
    server_momentum: Decay = Field(
        0.9, description="momentum of `fedavgm`, β₁ of `fedadam` and `fedyogi`"
    )
    server_decay: Decay = Field(0.99, description="β₂ of `fedadam` and `fedyogi`")
    server_tau: Positive = Field(1e-3, description="τ of `fedadam` and `fedyogi`")
    trim_fraction: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.2, description="share of the values that `fedtrimmedavg` cuts off at either end"
    )
    malicious_clients: CountOrAll = Field(
        1, description="f, how many of a round's clients may be hostile, for `krum` and `multikrum`"
    )
    krum_selected: CountOrAll = Field(
        0, description="how many updates `multikrum` averages; 0: n − f − 2 of a round's n"
    )
    oui_probe_size: Annotated[int, Field(ge=2, le=65_536)] = Field(
        32, description="B, the images of the probe batch"
    )
    oui_epsilon: Positive = Field(1e-3, description="ε of the OUI-Beta weights")
    oui_rho: NotNegative = Field(1.0, description="ρ, the exponent of n_k")
    oui_gamma: NotNegative = Field(1.0, description="γ, the exponent of the typicality score")

    oui_layers: Count | Literal["penultimate", "all"] = Field(
        "penultimate", description="the hidden layers over which OUI is the mean; n: the last n"
    )
    oui_window: Count = Field(1, description="rounds whose values the Beta is fitted to")
    oui_smoothing: Decay = Field(
        0.0, description="weight of a client's earlier OUI in its running mean; 0: none"
    )

    # Limits to what one client can do, or can be told from
    max_client_weight: Fraction = Field(
        1.0, description="no client has a larger share of a round; 1: no limit"
    )
    clip_norm: Positive | Literal["off", "median"] = Field(
        OFF,
        description="largest norm of an update; `median`: the median of the round's norms; `off`: "
        "no limit",
    )
    privacy: Literal["none", "central", "local"] = Field(
        "none", description="who adds noise for differential privacy: nobody, the server, clients"
    )
    noise_multiplier: Positive = Field(
        1.0, description="z: the noise's standard deviation is z times what one client can change"
    )
    privacy_delta: Annotated[float, Field(gt=0, lt=1)] = Field(
        1e-5, description="δ, at which the record states ε"
    )
    noise_source: Literal["system", "seed"] = Field(
        "system", description="`seed` repeats a run's noise, which then hides nothing"
    )

    # On the wire
    compression: Literal["none", "fp16", "int8"] = Field(
        "none",
        description="bits of a number in a client's update: 32, 16, or 8; with error feedback",
    )

    # Synthesis
    policy: Literal[
        "none", "fedeas", "full", "uniform", "size-proportional", "missing-only",
        "fedeas-no-entropy", "fedeas-linear",
    ] = Field("fedeas", description="how many synthetic images, and of which classes")  # fmt: skip
    beta: Annotated[float, Field(ge=0, le=1e6)] | Literal["auto"] = Field(
        12.0, description="β, the strength of FedEAS; `auto` applies the paper's rule"
    )
    generator: str = Field(
        "digits",
        min_length=1,
        description="`digits` (shipped), a directory, a hub id, `pool`, an installed plug-in, "
        "`federated`: the clients train it first, or `own`: each SuperNode its `generator-path`",
    )
    generator_revision: str = Field(
        "",
        pattern=r"^([0-9a-f]{40})?$",
        json_schema_extra={"allowed": "a commit of 40 hexadecimal digits"},
        description="the commit of a generator from the hub",
    )
    generator_digest: str = Field(
        "",
        pattern=r"^([0-9a-f]{64})?$",
        json_schema_extra={"allowed": "a SHA-256 of 64 hexadecimal digits"},
        description="the digest that every generator must have; empty: the server's, or where it "
        "has none, the same at all clients",
    )
    generator_classes: str = Field(
        "", description="what a pretrained pipeline calls our classes, with commas; empty: the same"
    )
    generator_prompt: str = Field(
        "a photo of a {class}", description="what a text-to-image pipeline is told"
    )
    pool_dataset: str = Field(
        "", description='for `generator = "pool"`: labelled images to draw from, as for `dataset`'
    )
    sampler: Literal["ddpm", "ddim", "dpm-solver++", "own"] = Field(
        "dpm-solver++",
        description="how images are drawn; `own`: as a pretrained pipeline does by itself",
    )
    sampler_steps: CountOrAll = Field(
        0, description="denoising steps; 0: 1000 for ddpm, 50 for ddim, 20 for dpm-solver++"
    )
    guidance_scale: NotNegative = Field(
        0.0, description="classifier-free guidance; 1: none; 0: the generator's own"
    )
    generation_precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="of the generator; `auto`: bfloat16 where a GPU has it, else float32"
    )
    generation_batch_size: CountOrAll = Field(
        0, description="images made at a time; 0: found by itself"
    )

    # With `generator = "federated"`: its training
    generator_rounds: Count = Field(60, description="rounds in which clients train the generator")
    generator_epochs: Count = Field(
        3, description="passes of a client over its real images in such a round"
    )
    generator_batch_size: Count = Field(16, description="images in a step of the generator")
    generator_fraction: Fraction = Field(1.0, description="share of the clients in such a round")
    generator_strategy: Literal["fedavg", "fedalign", "fedavgm", "fedadam", "fedyogi"] = Field(
        "fedavg", description="how the clients' generators are averaged"
    )
    generator_clip_norm: Positive | Literal["off", "median"] = Field(
        OFF, description="`clip-norm` of the generator's updates, which are of another size"
    )
    generator_mu: NotNegative = Field(
        0.0, description="μ of FedProx's term in training the generator; 0: none"
    )
    generator_embeddings: Literal["average", "movers"] = Field(
        "average",
        description="a class's embedding is averaged over all clients, or those that moved it",
    )
    generator_ema: Decay = Field(
        0.8, description="decay of the mean over rounds that is the generator; 0: the last round"
    )
    generator_preset: Literal["tiny", "small", "cifar"] = Field(
        "tiny", description="size of its network"
    )
    generator_unshuffle: Count = Field(
        1, description="its network sees blocks of this many pixels a side as channels"
    )
    generator_label_dropout: Annotated[float, Field(ge=0, le=0.9)] = Field(
        0.0, description="share of the labels left out in its training, for `guidance-scale`"
    )
    generator_learning_rate: NotNegative = Field(
        0.0, description="largest step size of its training; 0: the preset's"
    )
    generator_transfer: Literal["float32", "float16"] = Field(
        "float32", description="precision at which it travels in its rounds"
    )
    generator_samples_every: CountOrAll = Field(
        10, description="rounds between pictures of what it draws; 0: none"
    )
    generator_checked: CountOrAll = Field(
        32, description="its images that each client compares with its own; 0: none"
    )
    generator_max_copies: Share = Field(
        1.0,
        description="largest share of them that may be copies at a client; above it the run fails",
    )
    generator_only: bool = Field(False, description="end when the generator is trained")

    # Places and machines
    cache_dir: str = Field(
        "~/.cache/fedeas", min_length=1, description="decoded data and synthetic images"
    )
    cache_limit_gb: NotNegative = Field(
        0.0, description="the synthetic images in the cache take at most this; 0: no limit"
    )
    output_dir: str = Field(
        "~/fedeas-runs", min_length=1, description="each run makes a directory here"
    )
    run_name: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$",
        json_schema_extra={"allowed": "letters, digits, '_', '-' and, not first, '.'"},
        description="name of that directory; empty: time and seed",
    )
    tracker: Literal[
        "none", "tensorboard", "mlflow", "wandb", "comet_ml", "aim", "clearml", "dvclive",
        "swanlab", "trackio",
    ] = Field(
        "none", description="tracker that is told of the run, as `tensorboard`, `mlflow`, `wandb`"
    )  # fmt: skip
    device: str = Field(
        "auto",
        pattern=DEVICE,
        json_schema_extra={"allowed": DEVICES_IN_WORDS},
        description="`auto`, `cpu`, `cuda[:N]`, `mps`",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] = Field(
        1, description="CPU threads of each client"
    )
    prepare_timeout: Positive = Field(86_400.0, description="seconds allowed for preparation")
    round_timeout: Positive = Field(3_600.0, description="seconds allowed for a round")

    # Faults
    min_replies: Count = Field(1, description="a round with fewer usable replies does not count")
    max_failed_rounds: Count = Field(
        1, description="such rounds in a row after which the run fails, with the reasons"
    )
    checkpoint_every: CountOrAll = Field(1, description="rounds between checkpoints; 0: none")
    resume: bool = Field(
        False, description="go on with the run of this `run-name` from its last checkpoint"
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_whole_numbers_as_floats(cls, values: Any) -> Any:
        """TOML writes ``alpha = 1`` for 1.0; strict mode would refuse it."""
        if not isinstance(values, Mapping):
            return values
        return {key: _as_float_where_one_is_due(cls, key, value) for key, value in values.items()}

    @model_validator(mode="after")
    def _numbers_fit_where_they_go(self) -> Self:
        for key, value in self:
            if type(value) is int and value > _MOST and key != "seed":
                raise ValueError(f"{kebab(key)} is {value}; at most {_MOST:,} is allowed")
        return self

    @model_validator(mode="after")
    def _paths_do_not_depend_on_where_flower_runs(self) -> Self:
        for key in ("cache_dir", "output_dir"):
            refuse_relative(key, getattr(self, key))
        return self

    @model_validator(mode="after")
    def _a_run_to_resume_has_a_name(self) -> Self:
        if self.resume and not self.run_name:
            raise ValueError(
                "resume is True, but run-name is empty; set run-name to the name of the run's "
                "directory, or use `fedeas run --resume DIR`"
            )
        return self

    @model_validator(mode="after")
    def _class_names_are_told_apart(self) -> Self:
        names = self.class_list
        if names and (len(set(names)) < max(2, len(names)) or "" in names):
            raise ValueError(
                f"classes is {self.classes!r}; at least two different names with commas between "
                "them are needed, none of them empty"
            )
        return self

    @model_validator(mode="after")
    def _own_data_is_described(self) -> Self:
        if self.dataset != OWN:
            if self.test_dataset:
                raise ValueError(
                    f"test-dataset is {self.test_dataset!r}, but the dataset {self.dataset!r} has "
                    f"a test set of its own; leave it empty, or set dataset to {OWN!r}"
                )
            return self
        if missing := [kebab(key) for key in _DESCRIBING if not getattr(self, key)]:
            raise ValueError(
                f"dataset is {OWN!r}, so that the server cannot look at the images; set "
                f"{' and '.join(missing)}"
            )
        if self.dataset_subset:
            raise ValueError(
                f"dataset-subset is {self.dataset_subset!r}, but with dataset {OWN!r} each "
                "SuperNode's data-path names the folder of one subset; leave it empty"
            )
        without_test = () if self.test_dataset else ("test_samples",)
        if idle := [kebab(key) for key in (*_SHARED, *without_test) if getattr(self, key)]:
            raise ValueError(
                f"{' and '.join(idle)} cannot be had with dataset {OWN!r}, where each SuperNode "
                "uses all of its images; set to 0"
            )
        return self

    @model_validator(mode="after")
    def _the_model_has_as_many_hidden_layers(self) -> Self:
        layers = _HIDDEN_LAYERS[self.model]
        if isinstance(self.oui_layers, int) and self.oui_layers > layers:
            raise ValueError(
                f"oui-layers is {self.oui_layers}, but {self.model} has {layers} hidden layers; "
                f"set it to {layers} at most, or to 'all'"
            )
        return self

    @model_validator(mode="after")
    def _privacy_covers_all_that_is_trained(self) -> Self:
        if self.privacy == "none" or self.generator_only:  # which trains no classifier
            return self
        begin = f"privacy is {self.privacy!r}"
        if self.strategy == "scaffold":
            raise ValueError(
                f"{begin}, but the control variates that clients send with strategy 'scaffold' "
                "would go without noise; take another strategy"
            )
        if self.privacy == "central" and self.strategy not in _ALIKE:
            raise ValueError(
                f"{begin}, which needs clients that weigh alike, but strategy {self.strategy!r} "
                f"goes by what they send; take one of {_list(_ALIKE)}, or set privacy to 'local'"
            )
        if math.isinf(self.norm_bound):
            raise ValueError(
                f"{begin}, which needs updates of a fixed largest norm, but clip-norm is "
                f"{self.clip_norm!r}; set it to a number"
            )
        if (self.model, self.norm) == ("resnet18", "batch"):
            raise ValueError(
                f"{begin}, but the batch statistics of norm 'batch' would go without noise; set "
                "norm to 'group'"
            )
        return self

    @model_validator(mode="after")
    def _privacy_covers_a_generator_of_the_clients(self) -> Self:
        begin = f"privacy is {self.privacy!r}"
        if self.privacy == "none" or not self.trains_generator:
            return self
        if self.generator_embeddings == "movers":
            raise ValueError(
                f"{begin}, but generator-embeddings 'movers' goes by what clients send; set it to "
                "'average'"
            )
        if (self.privacy, self.generator_strategy) == ("central", "fedalign"):
            raise ValueError(
                f"{begin}, which needs clients that weigh alike, but generator-strategy 'fedalign' "
                "goes by what they send; take another one, or set privacy to 'local'"
            )
        if self.generator_clip_norm in (OFF, "median"):
            raise ValueError(
                f"{begin}, which needs updates of a fixed largest norm, but generator-clip-norm is "
                f"{self.generator_clip_norm!r}; set it to a number"
            )
        return self

    @model_validator(mode="after")
    def _limits_hold_for_all_that_is_sent(self) -> Self:
        if self.strategy == "scaffold" and self.clip_norm != OFF:
            raise ValueError(
                f"clip-norm is {self.clip_norm!r}, but the control variates that clients send with "
                "strategy 'scaffold' would stay without a limit; set it to 'off', or take another "
                "strategy"
            )
        if self.strategy == "scaffold" and self.max_client_weight < 1:
            raise ValueError(
                f"max-client-weight is {self.max_client_weight!r}, but with strategy 'scaffold' "
                "corrections cancel only where models and variates have the same weights; set it "
                "to 1, or take another strategy"
            )
        if self.strategy in _WITHOUT_WEIGHTS and self.max_client_weight < 1:
            raise ValueError(
                f"max-client-weight is {self.max_client_weight!r}, but strategy {self.strategy!r} "
                "does not go by weights; set it to 1"
            )
        movers = self.trains_generator and self.generator_embeddings == "movers"
        if movers and self.max_client_weight < 1:
            raise ValueError(
                f"max-client-weight is {self.max_client_weight!r}, but with generator-embeddings "
                "'movers' a row that one client alone moves is all that client's; set "
                "generator-embeddings to 'average', or max-client-weight to 1"
            )
        return self

    @model_validator(mode="after")
    def _strategies_do_what_their_name_says(self) -> Self:
        if self.strategy == "fedprox" and self.mu == 0:
            raise ValueError(
                "proximal-mu is 0, which makes strategy 'fedprox' plain FedAvg; set it above 0, or "
                "set strategy to 'fedavg'"
            )
        if self.strategy == "scaffold" and self.mu > 0:
            raise ValueError(
                f"proximal-mu is {self.mu!r}, but the control variates of strategy 'scaffold' "
                "would take in the proximal term; set it to 0"
            )
        if self.strategy == "scaffold" and self.compression != "none":
            raise ValueError(
                f"compression is {self.compression!r}, but the control variates of strategy "
                "'scaffold' are of updates as the server sees them whole; set it to 'none'"
            )
        return self

    @model_validator(mode="after")
    def _a_generator_of_the_clients_can_do_what_is_asked_of_it(self) -> Self:
        if self.generator_only and self.generator != FEDERATED:
            raise ValueError(
                f"generator-only is True, but the generator {self.generator!r} is not to be "
                f"trained; set generator to {FEDERATED!r}"
            )
        if not self.trains_generator:
            return self
        if self.guidance_scale not in (0, 1) and not self.generator_label_dropout:
            raise ValueError(
                f"guidance-scale is {self.guidance_scale:g}, which needs a generator trained with "
                "generator-label-dropout above 0"
            )
        if self.generator_classes or self.sampler == "own":
            key = "generator-classes" if self.generator_classes else "sampler 'own'"
            raise ValueError(
                f"{key} is for pretrained pipelines, and the generator {FEDERATED!r} is none; "
                "leave it out"
            )
        return self

    @model_validator(mode="after")
    def _a_generator_of_the_clients_can_be_opened_when_it_is_trained(self) -> Self:
        if not self.trains_generator:
            return self
        if self.sampler_steps > (most := _MOST_STEPS[self.sampler]):
            raise ValueError(
                f"sampler-steps is {self.sampler_steps}, but with the generator {FEDERATED!r} and "
                f"sampler {self.sampler!r} at most {most} is allowed; lower it"
            )
        if self.generator_revision:
            raise ValueError(
                f"generator-revision is set, but the generator {FEDERATED!r} does not come from "
                "the hub; leave it empty"
            )
        return self

    @model_validator(mode="after")
    def _copies_are_looked_for_where_they_are_limited(self) -> Self:
        idle = self.generator_max_copies < 1 and not self.generator_checked
        if self.trains_generator and idle:
            raise ValueError(
                f"generator-max-copies is {self.generator_max_copies:g}, but with "
                "generator-checked 0 nobody looks for copies; set generator-checked above 0, or "
                "generator-max-copies to 1"
            )
        return self

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "Settings":
        """Validate a flat mapping of kebab-case keys.

        Parameters
        ----------
        values : mapping
            Flower's run configuration, or the content of a TOML file.

        Returns
        -------
        Settings

        Raises
        ------
        UserError
            Names each key, what was given and what is allowed.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise UserError(*explain(error, cls)) from None

    def to_flat(self) -> dict[str, Value]:
        """Return every key (kebab case) with its value, as Flower's run configuration holds it."""
        return self.model_dump(by_alias=True)

    def reading(self, dataset: str) -> "Settings":
        """Return the settings for reading all of another dataset in the same manner.

        The subset is of this dataset alone, so that it is kept only where the other is the same.
        """
        changes = {"dataset": dataset, "dataset-revision": "", "test-dataset": ""}
        if dataset != self.dataset:
            changes["dataset-subset"] = ""
        return Settings.parse(self.to_flat() | changes | {"train-samples": 0})

    @property
    def trains_generator(self) -> bool:
        """Whether a run begins with the training of its generator."""
        wanted = self.policy != "none" or self.generator_only
        return self.generator == FEDERATED and wanted

    @property
    def subset_note(self) -> str:
        """What follows a dataset's name, for people, where one subset of it is used."""
        return f" ({self.dataset_subset})" if self.dataset_subset else ""

    @property
    def class_list(self) -> tuple[str, ...]:
        """The names of the classes in their order; empty where the dataset says."""
        return tuple(name.strip() for name in self.classes.split(",")) if self.classes else ()

    @property
    def own_shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the images of SuperNodes with data of their own."""
        return self.image_size, self.image_size, self.image_channels

    @property
    def mu(self) -> float:
        """μ of the proximal term; 0 is none."""
        if self.proximal_mu == "auto":
            return 0.01 if self.strategy == "fedprox" else 0.0
        return self.proximal_mu

    @property
    def server_step(self) -> float:
        """The server's learning rate η."""
        if self.server_learning_rate == "auto":
            return 1.0 if self.strategy == "fedavgm" else 0.01
        return self.server_learning_rate

    @property
    def steps_at_server(self) -> bool:
        """Whether the server takes a step of its own along the clients' average."""
        return self.strategy in _STEPPING

    @property
    def norm_bound(self) -> float:
        """C, the largest norm of an update; infinite where no number is given."""
        return math.inf if isinstance(self.clip_norm, str) else self.clip_norm

    @property
    def noise_deviation(self) -> float:
        """z·C, the standard deviation of the noise that hides a whole update."""
        return self.noise_multiplier * self.norm_bound

    @property
    def cache_path(self) -> Path:
        """The cache directory on this machine."""
        return Path(self.cache_dir).expanduser()

    @property
    def output_path(self) -> Path:
        """The directory of run directories on this machine."""
        return Path(self.output_dir).expanduser()


def read_toml(path: Path) -> dict[str, Any]:
    """Read a flat TOML configuration file.

    Raises
    ------
    UserError
        The file is missing, unreadable or not TOML.
    """
    try:
        return parse_toml(read_text(path))
    except OSError as error:
        raise UserError(f"The configuration {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise UserError(f"The configuration {path} is not valid TOML: {error}.") from error


def _as_float_where_one_is_due(cls: type[Settings], key: str, value: Any) -> Any:
    if type(value) is not int or key not in _taking_floats(cls):
        return value
    try:
        return float(value)
    except OverflowError:  # more than a float holds: the limits refuse infinity
        return math.inf if value > 0 else -math.inf


@cache
def _taking_floats(cls: type[Settings]) -> frozenset[str]:
    fields = cls.model_fields.items()
    return frozenset(kebab(name) for name, field in fields if "float" in str(field.annotation))


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Say in a sentence for each key what was given and what the model allows."""
    sentences: dict[str, str] = {}
    for problem in error.errors():
        key = str(problem["loc"][0]) if problem["loc"] else ""
        sentences.setdefault(key, _sentence(key, problem, model))
    return list(sentences.values())


def _sentence(key: str, problem: Any, model: type[BaseModel]) -> str:
    if not problem["loc"]:
        return f"{problem['msg'].removeprefix('Value error, ')}."
    if problem["type"] == "extra_forbidden":
        return f"Unknown key {key!r}{_nearest(key, model)}."
    return f"{key} is {problem['input']!r}; {allowed(key, model)} is allowed."


def _nearest(key: str, model: type[BaseModel]) -> str:
    import difflib

    names = [kebab(name) for name in model.model_fields]
    near = difflib.get_close_matches(key, names, n=1)
    if near:
        return f" (did you mean {near[0]!r}?)"
    return "; `fedeas keys` lists the keys" if model is Settings else f"; it takes {_list(names)}"


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def allowed(key: str, model: type[BaseModel] = Settings) -> str:
    """Say in words which values a key takes, from its schema."""
    schema = _schema(model)[key]
    return " or ".join(_words(part) for part in schema.get("anyOf", [schema]))


@cache
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = model.model_json_schema(by_alias=True)["properties"]
    return properties


def _words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(repr, schema["enum"]))
    if "const" in schema:
        return repr(schema["const"])
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[name]:g}" for name, sign in signs.items() if name in schema]
    if "allowed" in schema:
        return str(schema["allowed"])
    text = "a text that is not empty" if schema.get("minLength") else "a text"
    kinds = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
    kind = kinds.get(schema["type"], text)
    return " ".join([kind, " and ".join(bounds)]).strip()
