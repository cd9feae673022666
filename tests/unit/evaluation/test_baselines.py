import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from leakdet.evaluation.baselines import fit_logistic, group_scores, mean_by, trait_scores


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("separable", [False, True])
def test_logistic_regression_equals_scikit_learns(c: float, separable: bool) -> None:
    rng = np.random.default_rng(3)
    # the last is constant
    features = rng.normal(size=(80, 6)) * [1, 10, 0.1, 1, 1, 0] + [0, 5, -2, 0, 0, 7]
    value = features[:, 0] - 0.2 * features[:, 1]
    is_leak = value > -1.0 if separable else value + rng.normal(size=80) > -1.0
    ours = fit_logistic(features, is_leak, c)
    deviation = np.where(features.std(0) > 0, features.std(0), 1.0)
    scaled = (features - features.mean(0)) / deviation
    reference = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(scaled, is_leak)
    np.testing.assert_allclose(ours.coef, reference.coef_[0], atol=1e-5)
    np.testing.assert_allclose(
        ours.prob(features), reference.predict_proba(scaled)[:, 1], atol=1e-6
    )


def test_a_trait_is_turned_by_the_training_recordings_and_never_by_those_it_scores() -> None:
    train, is_leak = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, False])
    test = np.array([9.0, -1.0])
    assert trait_scores(train, is_leak, test).tolist() == [-9.0, 1.0]
    assert trait_scores(train, ~is_leak, test).tolist() == [9.0, -1.0]


def test_a_groups_record_is_its_log_odds_over_the_average_and_nothing_for_a_stranger() -> None:
    train = np.array(["a", "a", "a", "b", "b", "b"])
    is_leak = np.array([True, True, True, False, False, True])
    share = 4 / 6
    scores = group_scores(train, is_leak, np.array(["a", "b", "c", ""]))
    of_a = np.log((3 + share) / (1 - share)) - np.log(share / (1 - share))
    of_b = np.log((1 + share) / (2 + 1 - share)) - np.log(share / (1 - share))
    np.testing.assert_allclose(scores, [of_a, of_b, 0.0, 0.0])


def test_means_are_taken_per_owner() -> None:
    assert mean_by(np.array([1.0, 5.0, 3.0]), np.array([1, 0, 1]), 3).tolist() == [5.0, 2.0, 0.0]
