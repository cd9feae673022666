import torch
from torch.nn.functional import cross_entropy

from leakdet.loading.samples import Batch
from leakdet.training.mixup import mixup


def test_the_two_targets_make_the_loss_of_the_mixed_label() -> None:
    """The sum of the two weighted losses is the cross-entropy with the blended one-hot target."""
    count, classes = 16, 3
    class_id = torch.randint(classes, (count,))
    mel = class_id.float()[:, None, None, None].expand(-1, 2, 4, 1)
    batch = Batch(mel.half(), class_id, torch.ones(count), torch.arange(count))
    blended, (first, second) = mixup(mel, batch, 0.4)
    torch.testing.assert_close(first.weight + second.weight, torch.ones(count))
    labels = first.weight * first.class_id + second.weight * second.class_id
    torch.testing.assert_close(blended[:, 0, 0, 0], labels)
    logits = torch.randn(count, classes)
    parts = [cross_entropy(logits, each.class_id, reduction="none") * each.weight
             for each in (first, second)]  # fmt: skip
    targets = sum(
        each.weight[:, None] * torch.nn.functional.one_hot(each.class_id, classes)
        for each in (first, second)
    )
    torch.testing.assert_close(sum(parts).mean(), cross_entropy(logits, targets))


def test_the_weights_of_the_samples_stay() -> None:
    weight = torch.tensor([0.5, 2.0])
    batch = Batch(torch.zeros(2, 1, 1, 1).half(), torch.tensor([0, 1]), weight, torch.arange(2))
    for _ in range(5):
        _, (first, second) = mixup(torch.zeros(2, 1, 1, 1), batch, 1.0)
        own = first.weight / weight
        assert ((own >= 0) & (own <= 1)).all()
        partner = second.weight / (1 - own)
        assert all(min(abs(value - 0.5), abs(value - 2.0)) < 1e-5 for value in partner.tolist())
