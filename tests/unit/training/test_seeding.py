import itertools

import torch

from leakdet.training.seeding import seed_batch

CPU = torch.device("cpu")


def drawn(*place: int) -> float:
    seed_batch(place, CPU)
    return float(torch.rand(()))


def test_equal_places_draw_the_same_and_others_do_not() -> None:
    places = list(itertools.product(range(3), repeat=4))
    numbers = [drawn(*place) for place in places]
    assert numbers == [drawn(*place) for place in places]
    assert len(set(numbers)) > len(places) - 3  # float32 may meet by chance
