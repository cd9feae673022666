import torch

from leakdet.detection.leak_classes import any_of, leak_probability, leak_share
from leakdet.detection.networks import Output

PROB = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])


def test_one_class_has_its_own_probability() -> None:
    assert torch.equal(leak_share(PROB, (2,)), PROB[:, 2])


def test_several_classes_add_up_and_never_exceed_one() -> None:
    torch.testing.assert_close(leak_share(PROB, (0, 2)), torch.tensor([0.75, 0.8]))
    assert (leak_share(PROB + 1e-6, (0, 1, 2)) <= 1).all()


def test_a_class_is_a_leak_if_it_is_any_of_them() -> None:
    assert any_of(torch.tensor([0, 1, 2, 1]), (0, 2)).tolist() == [True, False, True, False]


def test_leak_probability_blends_both_heads_or_ignores_the_untrained_one():
    output = Output(torch.tensor([[0.0, 2.0], [3.0, 0.0]]), torch.tensor([-1.0, 4.0]))
    softmax, sigmoid = output.class_logits.softmax(1), output.leak_logit.sigmoid()
    torch.testing.assert_close(
        leak_probability(output, (1,), 0.5), 0.5 * softmax[:, 1] + 0.5 * sigmoid
    )
    torch.testing.assert_close(leak_probability(output, (0,), 1.0), softmax[:, 0])
    random = output._replace(leak_logit=torch.full((2,), float("nan")))
    torch.testing.assert_close(leak_probability(random, (1,), 1.0), softmax[:, 1])
