// A program of somebody else: runs a model on made-up input and writes input and output down.
//   consumer MODEL INPUT.npy OUTPUT.raw [optimize]
// Prints the name of the input.
#include <rewright/rewright.h>

#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    // Kernels are chosen by measured costs: who has the same costs gets the same bits.
    rewright::ModelOptions options;
    options.profile = std::string(argv[2]) + ".db";
    rewright::Model model = rewright::Model::Load(argv[1], options);
    if (argc > 4) model.Optimize();
    const rewright::TensorInfo input = model.inputs().at(0);
    std::cout << input.name << "\n";
    std::string shape;
    std::size_t count = 1;
    for (std::int64_t size : input.shape) {
      shape += std::to_string(size) + ",";
      count *= static_cast<std::size_t>(size);
    }
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize(118 - 1, ' ');
    std::ofstream npy(argv[2], std::ios::binary);
    npy << "\x93NUMPY\x01" << '\0' << '\x76' << '\0' << header << '\n';
    npy.write(reinterpret_cast<const char*>(x.data()), static_cast<std::streamsize>(count * sizeof(float)));
    const rewright::OutputArray y = model.Run({rewright::InputView::Of(input.name, input.shape, x.data())}).at(0);
    std::ofstream raw(argv[3], std::ios::binary);
    raw.write(reinterpret_cast<const char*>(y.data<float>()), static_cast<std::streamsize>(y.size() * sizeof(float)));
  } catch (const rewright::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
