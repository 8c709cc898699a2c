"""Writes the handwritten digits of scikit-learn as four .npy files, in the folder of this script.

    pip install scikit-learn==1.9.1 numpy && python digits.py

1,797 images of 8 x 8 pixels with values 0..16, split once by a fixed random order into 1,437 to train on and 360 to
test on.
"""

import pathlib

import numpy
from sklearn.datasets import load_digits

folder = pathlib.Path(__file__).parent
images, labels = load_digits(return_X_y=True)
order = numpy.random.RandomState(0).permutation(len(images))
for name, part in (("train", order[:1437]), ("test", order[1437:])):
    numpy.save(folder / f"{name}_x.npy", images[part].astype(numpy.uint8))
    numpy.save(folder / f"{name}_y.npy", labels[part].astype(numpy.uint8))
