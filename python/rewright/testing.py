"""Assertions about models, for tests of whoever changes models: exporters, optimizers, quantizers.

    import rewright.testing

    def test_fusion_keeps_the_function():
        model = make_model()
        rewright.testing.assert_equal(model, my_optimizer(model))

The models are proved equal over the real numbers, so that one test stands for all inputs. With pytest the message of a
failure is the summary of `rewright.equal`: the output that differs, or the regions that no proof was found for.
"""

from . import equal

__all__ = ["assert_equal"]

_MEANT = {"proved", "equal up to constants", "open"}


def assert_equal(a, b, *, accept=("proved",), **settings):
    """Raises AssertionError unless the models are proved equal; returns the judgement.

    `accept` has the answers that pass: "proved" alone, or also "equal up to constants" where constants may differ by a
    few units in the last place, or "open" where no proof is needed as long as no difference is found. Settings are those
    of `rewright.equal`.
    """
    __tracebackhide__ = True  # pytest shows the caller
    unknown = set(accept) - _MEANT
    if unknown:
        raise ValueError(f"accept: found {sorted(unknown)}, expected some of {sorted(_MEANT)}")
    judgement = equal(a, b, **settings)
    if judgement.answer not in accept:
        raise AssertionError("the models are not proved equal: " + judgement.summary)
    return judgement
