"""The backend of torch.compile where weights change between calls, and where the module gives what Rewright cannot.

Each test of weights calls a compiled module, changes it in one way, and holds the next calls against the module itself.
"""

import sys
import unittest
import warnings
from unittest import mock

try:
    import onnxscript  # noqa: F401: what torch's exporter needs
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from rewright import torch_backend

WIDTH = 6


class Net(torch.nn.Module):
    """A weight that two layers share, running means, and a matrix above 64 KiB, of which a sample is looked at."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.second = torch.nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.large = torch.nn.Embedding(5000, WIDTH)
        self.register_buffer("scale", torch.full((WIDTH,), 0.5))
        self.shift = torch.zeros(WIDTH)  # neither a parameter nor a buffer

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x))) * self.scale
        return self.second(y + self.shift) + self.large.weight.square().mean(0)


def optimizer_step(kind, **options):
    def step(module):
        optimizer = getattr(torch.optim, kind)(module.parameters(), lr=0.1, **options)
        module.train()
        with torch.enable_grad():
            module(torch.randn(8, WIDTH)).square().sum().backward()
        module.eval()
        optimizer.step()
        module.zero_grad(set_to_none=True)
    return step


def load_state_dict(**options):
    def load(module):
        module.load_state_dict({name: value * 2 for name, value in module.state_dict().items()}, **options)
    return load


def replaced(module):
    module.second.bias = torch.nn.Parameter(torch.ones(WIDTH))


def replaced_with_the_same_memory(module):
    module.second.bias = torch.nn.Parameter(module.second.bias.data)
    module.second.bias.add_(1)


def other_data(module):
    module.first.weight.data = torch.ones(WIDTH, WIDTH)


def other_data_twice(module):
    """The second may lie where the first one lay."""
    module.first.weight.data = module.first.weight.data * 2
    module.first.weight.data = module.first.weight.data * 3


def transposed_data(module):
    module.first.weight.data = module.first.weight.data.t()


def in_place(module):
    module.first.weight.mul_(2)


def in_place_in_inference_mode(module):
    with torch.inference_mode():
        module.first.weight.mul_(2)


def all_in_place(module):
    torch._foreach_mul_(list(module.parameters()), 2)


def uncounted(module):
    module.first.weight.data.neg_()


def uncounted_element(module):
    module.first.weight.data[2, 3] += 1


def uncounted_in_a_large_one(module):
    module.large.weight.data.clamp_(-0.5, 0.5)


def by_numpy(module):
    module.first.bias.detach().numpy()[1] = 3


def running_means(module):
    module.norm.train()
    module(torch.randn(32, WIDTH) + 3)
    module.norm.eval()


def buffer_in_place(module):
    module.scale.add_(1)


def buffer_replaced(module):
    module.scale = torch.full((WIDTH,), 3.0)


def attribute_in_place(module):
    module.shift.add_(1)


def attribute_replaced(module):
    module.shift = torch.ones(WIDTH)


def into_training(module):
    module.train()


def tied_otherwise(module):
    module.second.weight = torch.nn.Parameter(torch.eye(WIDTH))


def initialized_again(module):
    module.first.reset_parameters()


def to_double_and_back(module):
    module.double()
    module.first.weight.mul_(2)
    module.float()


def from_a_vector(module):
    vector = torch.nn.utils.parameters_to_vector(module.parameters())
    torch.nn.utils.vector_to_parameters(vector * 2, module.parameters())


CHANGES = [
    optimizer_step("SGD", momentum=0.9), optimizer_step("Adam"), optimizer_step("AdamW", fused=True),
    optimizer_step("Adam", foreach=True), load_state_dict(), load_state_dict(assign=True), replaced,
    replaced_with_the_same_memory, other_data, other_data_twice, transposed_data, in_place, in_place_in_inference_mode,
    all_in_place, uncounted, uncounted_element, uncounted_in_a_large_one, by_numpy, running_means, buffer_in_place,
    buffer_replaced, attribute_in_place, attribute_replaced, into_training, tied_otherwise, initialized_again,
    to_double_and_back, from_a_vector,
]


class Copies:
    """In the place of a model: the graph, run with copies of the weights. Takes no time to make."""

    def __init__(self, graph, inputs, static, *_):
        self.graph = graph
        self.weights = {number: inputs[number].detach().clone() for number in static}
        self.runs = 0

    def __call__(self, inputs):
        self.runs += 1
        return self.graph.forward(*(self.weights.get(number, value) for number, value in enumerate(inputs)))


class TorchBackendTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        torch.compiler.reset()
        self.runs = 0
        run = torch_backend._Runner.__call__

        def counted(runner, inputs):
            self.runs += 1
            return run(runner, inputs)

        patch = mock.patch.object(torch_backend._Runner, "__call__", counted)
        patch.start()
        self.addCleanup(patch.stop)
        warnings.simplefilter("ignore")

    def compiled(self, module):
        return torch.compile(module, backend=torch_backend.compile_graph, options={"settings": None})

    def expect_equal(self, compiled, module, *inputs, runs=None):
        before = self.runs
        found, expected = compiled(*inputs), module(*inputs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)  # and of one type and shape
        if runs is not None:
            self.assertEqual(self.runs - before, runs)

    def test_the_backend_has_a_name(self):
        self.assertIn("rewright", torch._dynamo.list_backends())

    @mock.patch.object(torch_backend, "_model_of", lambda *given: (Copies(*given),))
    @mock.patch.object(torch_backend, "_Runner", lambda copies: copies)
    def test_changed_weights_are_seen(self):
        for change in CHANGES:
            with self.subTest(change.__qualname__), torch.no_grad():
                torch.compiler.reset()
                module = Net().eval()
                made = []

                def backend(graph, inputs):
                    made.append(torch_backend.compile_graph(graph, inputs))
                    return made[-1]

                compiled = torch.compile(module, backend=backend)
                x = torch.randn(3, WIDTH)
                for _ in range(2):
                    self.expect_equal(compiled, module, x)
                self.assertEqual(made[0]._compiled[1].runs, 2)
                change(module)
                for _ in range(3):  # by PyTorch, then compiled anew
                    self.expect_equal(compiled, module, x)

    def test_a_loaded_state_is_compiled_anew(self):
        module = Net().eval()
        compiled = self.compiled(module)
        x = torch.randn(3, WIDTH)
        with torch.no_grad():
            self.expect_equal(compiled, module, x, runs=1)
            load_state_dict()(module)
            for runs in (0, 1, 1):
                self.expect_equal(compiled, module, x, runs=runs)

    def test_weights_that_go_on_changing_stay_with_pytorch(self):
        module = torch.nn.Linear(WIDTH, 2)
        compiled = self.compiled(module)
        x = torch.randn(3, WIDTH)
        with torch.no_grad(), mock.patch.object(torch_backend, "_model_of", wraps=torch_backend._model_of) as made:
            self.expect_equal(compiled, module, x, runs=1)
            for _ in range(5):
                module.weight.mul_(1.5)
                self.expect_equal(compiled, module, x, runs=0)
            self.assertEqual(made.call_count, 1)
            for _ in range(3):  # compiled anew
                self.expect_equal(compiled, module, x, runs=1)
            self.assertEqual(made.call_count, 2)
            module.weight.mul_(1.5)
            for runs in (0, 0, 0, 1, 1):  # it takes twice as many
                self.expect_equal(compiled, module, x, runs=runs)

    def test_training_and_evaluation_in_turn(self):
        module = torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        compiled = self.compiled(module)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
        x = torch.randn(4, WIDTH)
        for _ in range(3):
            module.train()
            optimizer.zero_grad()
            compiled(x).square().sum().backward()
            optimizer.step()
            module.eval()
            with torch.no_grad():
                for _ in range(3):
                    self.expect_equal(compiled, module, x)
        self.assertGreater(self.runs, 0)

    def test_parametrizations(self):
        module = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(WIDTH, 3)).eval()
        compiled = self.compiled(module)
        x = torch.randn(2, WIDTH)
        with torch.no_grad():
            self.expect_equal(compiled, module, x, runs=1)
            module.parametrizations.weight.original0.mul_(2)
            self.expect_equal(compiled, module, x, runs=0)
            module.weight = torch.ones(3, WIDTH)
            self.expect_equal(compiled, module, x)

    def test_weights_that_pytorch_does_not_watch_stay_with_it(self):
        with torch.inference_mode():
            in_inference_mode = torch.nn.Linear(WIDTH, 2)
        shared = torch.nn.Linear(WIDTH, 2).share_memory()
        for module, word in [(in_inference_mode, "inference mode"), (shared, "shared with other processes")]:
            with self.assertLogs("rewright", "INFO") as logs, torch.inference_mode():
                self.expect_equal(self.compiled(module), module, torch.randn(2, WIDTH), runs=0)
            self.assertIn(word, logs.output[0])

    def test_outputs_are_those_of_the_module(self):
        x = torch.randn(4, WIDTH)
        for number, (function, value) in enumerate([
            (lambda x: x * 2, x.bfloat16()),
            (lambda x: x.to(torch.bfloat16) * 2, x),
            (lambda x: x * 2, x.half()),
            (lambda x: x * 2, x.double()),
            (lambda x: (x > 0, x.argmax(1), (10 * x.abs()).to(torch.uint8)), x),
            (lambda x: torch.fft.rfft(x).abs(), x),
            (lambda x: (x * 2).split(2, 1), x),
            (lambda x: x * 2, torch.randn(3, dtype=torch.complex64).conj().imag),  # its memory holds -x
        ]):
            with self.subTest(number), torch.no_grad(), self.assertNoLogs("rewright"):
                torch.compiler.reset()
                self.expect_equal(self.compiled(function), function, value, runs=1)

    def test_outputs_have_the_strides_of_eager_mode(self):
        conv = torch.nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last).eval()

        def views(x):
            y = conv(x)
            z = x.sum((2, 3))
            return (y, y.permute(0, 2, 3, 1) + 1, (z * 2).t(), (z * 3)[:, :2], (z * 4)[:, :1].expand(-1, 5),
                    (z * 5).unfold(1, 2, 1), (z * 6).bfloat16().t())

        with torch.no_grad(), self.assertNoLogs("rewright"):
            call = self.compiled(views)
            for images in (2, 3, 5):  # the second time sizes become symbols
                x = torch.randn(images, 3, 5, 5).to(memory_format=torch.channels_last)
                found, truth = call(x), views(x)
                torch.testing.assert_close(found, truth)
                self.assertEqual([y.stride() for y in found], [y.stride() for y in truth])

    def test_autocast(self):
        module = torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
        compiled = self.compiled(module)
        x = torch.randn(2, WIDTH)
        with torch.no_grad():
            for _ in range(2):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    self.expect_equal(compiled, module, x, runs=1)
                self.expect_equal(compiled, module, x, runs=1)

    def test_what_does_not_fit_stays_with_pytorch(self):
        x = torch.randn(4, WIDTH)
        for function, value, words in [
            (lambda x: torch.complex(x, 2 * x), x, r"its outputs would be \[\('float32', \(4, 6, 2\)\)\], expected \["
                                                   r"\('complex64', \(4, 6\)\)\]"),
            (torch.fft.fft, x, "its outputs would be"),
            (lambda x: x.to(torch.bfloat16).sum(), x, "its outputs would be"),  # PyTorch's exporter gives float32
            (lambda z: torch.view_as_real(z * 2), torch.randn(3, dtype=torch.complex64), "its inputs would be"),
            (lambda x: (y := torch.relu(x), y.view(-1)), x, "a view of an input or of another output"),
        ]:
            with self.subTest(words), torch.no_grad():
                torch.compiler.reset()
                with self.assertLogs("rewright", "INFO") as logs:
                    self.expect_equal(self.compiled(function), function, value, runs=0)
                self.assertRegex(logs.output[0], words)

    def test_random_numbers_stay_with_pytorch(self):
        x = torch.randn(4, WIDTH)
        for function in (lambda x: torch.nn.functional.dropout(x, 0.5, True), lambda x: x + torch.rand(4, WIDTH)):
            torch.compiler.reset()
            with torch.no_grad(), self.assertLogs("rewright", "INFO") as logs:
                compiled = self.compiled(function)
                compiled(x)
                torch.manual_seed(3)
                found = compiled(x)
                torch.manual_seed(3)
                torch.testing.assert_close(found, function(x))
            self.assertIn("draws random numbers", logs.output[0])

    def test_sizes_that_change_keep_what_is_compiled(self):
        net = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 3)).eval()

        def pairs(x, y):
            return net(x) @ net(y).t(), torch.cat([x, y]).reshape(-1, 2)

        for function, count in (net, 1), (pairs, 2):
            with self.subTest(function), torch.no_grad(), self.assertNoLogs("rewright"):
                call = self.compiled(function)
                with mock.patch("torch.onnx.export", wraps=torch.onnx.export) as export:
                    for rows in (2, 3, 4, 7, 11, 5, 3):
                        inputs = [torch.randn(rows + number, WIDTH) for number in range(count)]
                        torch.testing.assert_close(call(*inputs), function(*inputs))
                    self.assertEqual(export.call_count, 2)  # of the first size, then of all

    def test_a_size_of_no_input_stays_with_pytorch(self):
        with torch.no_grad(), self.assertLogs("rewright", "INFO") as logs:
            call = self.compiled(lambda x, n: x * n)
            for n in (3, 4, 5):
                x = torch.randn(4, 2)
                torch.testing.assert_close(call(x, n), x * n)
        self.assertIn("a size is that of no input", logs.output[0])

    def test_a_reason_is_a_warning_once(self):
        torch_backend._told.clear()
        with self.assertLogs("rewright", "INFO") as logs:
            for width in (2, 3, 4):
                self.compiled(torch.nn.Linear(width, 1))(torch.randn(2, width))
        self.assertEqual([line.split(":")[0] for line in logs.output], ["WARNING", "INFO", "INFO"])
        self.assertIn("gradients are asked for", logs.output[0])

    def test_unknown_options_are_errors(self):
        for options, words in [({"dim": 1}, "no option 'dim'"), ({"settings": {"speed": 1}}, "no setting 'speed'")]:
            torch.compiler.reset()
            with self.assertRaisesRegex(Exception, words), torch.no_grad():
                torch.compile(torch.relu, backend=torch_backend.compile_graph, options=options)(torch.ones(2))


if __name__ == "__main__":
    unittest.main()
