"""The functions of scipy.special, imported by themselves: they are scipy's own, and all else of scipy works as ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tiny import ROOT

_FIRST = "import sys; from tracediff.measure import special\n"


def python(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_only_the_compiled_part_is_imported():
    python(
        _FIRST + "assert 'scipy.special._ufuncs' in sys.modules\n"
        "assert not {'scipy.special._orthogonal', 'numpy.f2py', 'scipy.linalg'} & set(sys.modules)"
    )


def test_the_functions_are_those_of_scipy():
    python(
        _FIRST + "import numpy as np, scipy.special as whole\n"
        "p, df = np.linspace(0.001, 0.999, 201), np.geomspace(0.5, 1e4, 101)[:, None]\n"
        "np.testing.assert_array_equal(special.stdtrit(df, p), whole.stdtrit(df, p))\n"
        "np.testing.assert_array_equal(special.stdtr(df, p - 3), whole.stdtr(df, p - 3))\n"
        "np.testing.assert_array_equal(special.ndtri(p), whole.ndtri(p))\n"
        "np.testing.assert_array_equal(special.nctdtrinc(df, 0.2, p), whole.nctdtrinc(df, 0.2, p))"
    )


def test_their_values():
    """Student's t with one degree of freedom is Cauchy's distribution: its quantile is tan(pi (p - 1/2))."""
    from math import atan, pi, tan

    from tracediff.measure import special

    assert special.stdtrit(1.0, 0.975) == pytest.approx(tan(pi * 0.475), rel=1e-9)
    assert special.stdtr(1.0, 2.0) == pytest.approx(0.5 + atan(2.0) / pi, rel=1e-12)
    assert special.ndtri(0.975) == pytest.approx(
        1.959963984540054, rel=1e-12
    )  # any table of the normal distribution


@pytest.mark.parametrize(
    "code",
    [
        "from scipy.special import erf; assert abs(erf(0.5) - 0.5204998778130465) < 1e-15",
        "import scipy; assert scipy.special.gamma(5) == 24",
        "from scipy.special import *; assert gamma(5) == 24",
        "from scipy import stats; assert abs(stats.norm.cdf(0) - 0.5) < 1e-15",
        "import scipy.special as s; assert not hasattr(s, 'nothing'); assert s.gamma(5) == 24",
        "import pickle, scipy.special as s; assert pickle.loads(pickle.dumps(s.expit))(0.0) == 0.5",
    ],
)
def test_the_rest_of_scipy_is_there_when_it_is_asked_for(code):
    python(_FIRST + code)


def test_several_threads_may_ask_at_once():
    python(
        _FIRST + "import threading\nfound = []\n"
        "def ask():\n    import scipy.special\n    found.append(float(scipy.special.gamma(5)))\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "[one.start() for one in threads]; [one.join() for one in threads]\n"
        "assert found == [24.0] * 8, found"
    )


def test_scipy_that_is_laid_out_otherwise_is_imported_whole():
    python(
        "import importlib, sys\nreal = importlib.import_module\n"
        "def other(name, *more):\n"
        "    if name == 'scipy.special._ufuncs':\n        raise ImportError(name)\n"
        "    return real(name, *more)\n"
        "importlib.import_module = other\n"
        "from tracediff.measure import special\nimport scipy.special\n"
        "assert special.stdtrit is scipy.special.stdtrit and scipy.special.gamma(5) == 24\n"
        "assert 'scipy.special._orthogonal' in sys.modules"
    )


def test_what_was_imported_before_is_used():
    python(
        "import scipy.special\nfrom tracediff.measure import special\nassert special.ndtri is scipy.special.ndtri"
    )
