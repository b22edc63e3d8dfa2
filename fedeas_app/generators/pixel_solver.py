"""DPM-Solver++ for pixels. A module of its own, because it needs diffusers to be defined."""

import torch
from diffusers import DPMSolverMultistepScheduler


class PixelSolver(DPMSolverMultistepScheduler):  # type: ignore[misc]  # diffusers is untyped
    """diffusers' DPM-Solver++, which clips every guess at the image to [-1, 1] without a sort.

    For ``thresholding`` diffusers sorts all pixels of each image to find the quantile that it
    divides by (Saharia et al., arXiv 2205.11487, section 2.3), and then brings that quantile into
    [1, ``sample_max_value``]. Where both ends are 1, clipping alone gives the same bits.
    """

    def _threshold_sample(self, sample: torch.Tensor) -> torch.Tensor:
        if self.config["sample_max_value"] == 1:
            return sample.clamp(-1, 1)
        divided: torch.Tensor = super()._threshold_sample(sample)
        return divided
