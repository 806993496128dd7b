from workbench.workloads.products import convolution, flops, linear, parameters, reduced


def test_a_linear_layer_by_hand():
    # 3 rows of 4 inputs to 5 outputs: 20 weights and 5 biases; 3 x 20 multiply-adds.
    # Forward, gradient of the weights and of the input: 3 x 2 x 60 FLOPs.
    layer = linear(4, 5, rows=3)
    assert (layer.parameters, layer.macs, layer.flops) == (25, 60, 360)
    assert linear(4, 5, rows=3, bias=False).parameters == 20
    # Data has no gradient: one product less.
    assert linear(4, 5, rows=3, passes=False).flops == 240


def test_a_convolution_by_hand():
    # 8 to 16 channels in 2 groups, 3 x 3 kernel: 16 x (8 / 2) x 9 = 576 weights, each once at each
    # of 100 positions; a norm behind it has 2 x 16.
    layer = convolution(8, 16, 3, positions=100, groups=2, others=2)
    assert (layer.weights, layer.others, layer.macs) == (576, 32, 57_600)
    # Frozen behind something that trains: no gradient of the weights.
    assert convolution(8, 16, 3, positions=100, trains=False).flops == 4 * 16 * 8 * 9 * 100
    # 3 dimensions: 27 taps.
    assert convolution(1, 2, 3, positions=8, dims=3).macs == 8 * 2 * 27


def test_sizes_after_strides():
    # floor((n + 2 (k // 2) - k) / 2) + 1 for odd k: 7 -> 4, 8 -> 4, 25 -> 13.
    assert [reduced(n, 2) for n in (7, 8, 25)] == [4, 4, 13]
    assert reduced(7, 1) == 7


def test_sums():
    layers = [linear(2, 3), linear(3, 1)]
    assert parameters(layers) == 9 + 4
    assert flops(layers) == 6 * 6 + 6 * 3
