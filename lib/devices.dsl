# SPDX-License-Identifier: Apache-2.0
# Devices that a `cluster` block may name. Dense peaks, one-way links, of data sheets; what programs reach of them is
# said where it differs from the constants of an A100 (`dtc explain device` lists them, docs/cost.md has the equations).
# A block of the same name in a program counts instead. Rates for long sequences: FlashAttention 3's charts.

device "cpu" {
  description = "the processor of the host; one rank per share of its cores"
  source = "one core of a server with AVX-512, measured; dtc calibrate measures this machine"
  gpu = false
  units = 1
  peak_f32 = 117GFLOP/s
  peak_f16 = 234GFLOP/s
  bandwidth = 29GB/s
  intra = link(7GB/s, 1us)
  inter = link(1GB/s, 30us)
  product = about(0.95, within = 0.2, source = "oneDNN, products of 1024 x 768 x 768 and larger: 104 to 118 GFLOP/s")
  memory = about(0.8, within = 0.3, source = "copy of large arrays")
  launch = about(1us, within = 0.5, source = "an instruction of the rank's loop")
  arithmetic = about(0.2, within = 0.5, source = "kernels of canonical C")
  special = about(40, within = 0.5, source = "polynomials of exp, log and tanh")
  attention_forward = about(0.45, within = 0.4, source = "blocks of products and loops")
  attention_backward = about(0.45, within = 0.4, source = "blocks of products and loops")
  attention_half = 64
  attention_head = 16
  link = about(0.8, within = 0.4, source = "collectives in shared memory")
  link_start = about(2us, within = 0.5, source = "a barrier")
  net = about(0.7, within = 0.4, source = "MPI over Ethernet")
  hop = about(1us, within = 0.5, source = "a barrier")
  message = about(0.8, within = 0.4, source = "a copy into a slot")
  message_start = about(1us, within = 0.5, source = "a futex")
  share = about(0.01, within = 0.9, source = "ranks execute exchanges themselves")
  step = about(0.5ms, within = 0.9, source = "metrics, log, data")
}

device "v100" {
  description = "NVIDIA V100 SXM2 32 GB"
  like = "v100-32g"
}

device "v100-16g" {
  description = "NVIDIA V100 SXM2 16 GB"
  like = "v100-32g"
  capacity = 16GiB
}

device "v100-32g" {
  description = "NVIDIA V100 SXM2 32 GB"
  source = "NVIDIA V100 data sheet"
  units = 80
  peak_f32 = 15.7TFLOP/s
  peak_f16 = 125TFLOP/s
  capacity = 32GiB
  bandwidth = 900GB/s
  cache = 6MiB
  intra = link(150GB/s, 2us)
  inter = link(12.5GB/s, 5us)
  host = 13GB/s
  node = 8
  product = about(0.75, within = 0.12, source = "no published step of this part is fitted")
  attention_forward = about(0.35, within = 0.3, source = "no kernel of FlashAttention 2 for this part")
  attention_backward = about(0.25, within = 0.3, source = "no kernel of FlashAttention 2 for this part")
}

device "a100-40g" {
  description = "NVIDIA A100 SXM4 40 GB"
  like = "a100-80g"
  capacity = 40GiB
  bandwidth = 1555GB/s
}

device "a100-80g" {
  description = "NVIDIA A100 SXM4 80 GB"
  source = "NVIDIA A100 data sheet"
  units = 108
  peak_f32 = 19.5TFLOP/s
  peak_tf32 = 156TFLOP/s
  peak_f16 = 312TFLOP/s
  capacity = 80GiB
  bandwidth = 2039GB/s
  cache = 40MiB
  intra = link(300GB/s, 2us)
  inter = link(25GB/s, 5us)
  host = 25GB/s
  node = 8
}

device "h100-sxm" {
  description = "NVIDIA H100 SXM5 80 GB, 700 W"
  source = "NVIDIA H100 data sheet"
  units = 132
  peak_f32 = 67TFLOP/s
  peak_tf32 = 494.5TFLOP/s
  peak_f16 = 989TFLOP/s
  peak_f8 = 1979TFLOP/s
  capacity = 80GiB
  bandwidth = 3350GB/s
  cache = 50MiB
  intra = link(450GB/s, 2us)
  inter = link(50GB/s, 5us)
  host = 55GB/s
  node = 8
  product = about(0.70, within = 0.12, source = "one product of an H200 reaches 0.78 to 0.81; sustained clocks are lower")
  attention_forward = about(0.72, within = 0.15, source = "cuDNN 9.19 on an H200, the same chip; 0.56 of a year before")
  attention_backward = about(0.61, within = 0.15, source = "cuDNN 9.19 on an H200, the same chip; 0.53 of a year before")
  fa2_forward = about(0.345, within = 0.15, source = "FlashAttention 2, heads of 128, causal, 16k: 335 TFLOP/s")
  fa2_backward = about(0.33, within = 0.15, source = "FlashAttention 2, heads of 128, 16k: 322 TFLOP/s")
  attention_half = about(1200, within = 0.2, source = "cuDNN 9.19 on an H200, 2k to 8k")
}

device "h100-pcie" {
  description = "NVIDIA H100 PCIe 80 GB, 350 W"
  like = "h100-sxm"
  units = 114
  peak_f32 = 51TFLOP/s
  peak_tf32 = 378TFLOP/s
  peak_f16 = 756TFLOP/s
  peak_f8 = 1513TFLOP/s
  bandwidth = 2000GB/s
  intra = link(55GB/s, 5us)
  inter = link(25GB/s, 5us)
  product = about(0.55, within = 0.2, source = "350 W: between the 500 W part and its peak")
  attention_forward = about(0.5, within = 0.25, source = "the 700 W part, by power")
  attention_backward = about(0.43, within = 0.25, source = "the 700 W part, by power")
  fa2_forward = about(0.33, within = 0.2, source = "as products, by power")
  fa2_backward = about(0.26, within = 0.2, source = "as products, by power")
}

device "h100-500w" {
  description = "NVIDIA H100 96 GB HBM2e, 500 W (Grand Teton)"
  like = "h100-sxm"
  source = "torchtitan's page on performance: 2.4 TB/s, 500 W"
  capacity = 96GiB
  bandwidth = 2400GB/s
  product = about(0.554, within = 0.052, source = "fit: torchtitan's steps")
  attention_forward = about(0.61, within = 0.2, source = "the 700 W part, by power")
  attention_backward = about(0.52, within = 0.2, source = "the 700 W part, by power")
  fa2_forward = about(0.305, within = 0.15, source = "fit: torchtitan's steps")
  fa2_backward = about(0.248, within = 0.18, source = "fit: torchtitan's steps")
}

device "h200" {
  description = "NVIDIA H200 SXM 141 GB"
  like = "h100-sxm"
  source = "NVIDIA H200 data sheet"
  capacity = 141GB
  bandwidth = 4800GB/s
  product = about(0.70, within = 0.12, source = "one product reaches 0.78 to 0.81; sustained clocks are lower")
  memory = about(0.85, within = 0.08, source = "a copy reaches 4.3 TB/s")
  attention_forward = about(0.747, within = 0.1, source = "cuDNN 9.19, heads of 128, causal, 2k to 8k: 484, 591, 644 TFLOP/s")
  attention_backward = about(0.627, within = 0.1, source = "cuDNN 9.19, heads of 128, causal, 2k to 8k: 370, 474, 541 TFLOP/s")
}

device "h800" {
  description = "NVIDIA H800 SXM 80 GB"
  like = "h100-sxm"
  source = "an H100 SXM5 with 400 GB/s of NVLink"
  intra = link(200GB/s, 2us)
}

device "b200" {
  description = "NVIDIA B200 SXM 180 GB"
  source = "NVIDIA HGX B200 data sheet"
  units = 148
  peak_f32 = 75TFLOP/s
  peak_tf32 = 1125TFLOP/s
  peak_f16 = 2250TFLOP/s
  peak_f8 = 4500TFLOP/s
  capacity = 180GB
  bandwidth = 7700GB/s
  cache = 126MiB
  intra = link(900GB/s, 2us)
  inter = link(50GB/s, 5us)
  host = 55GB/s
  node = 8
  product = about(0.65, within = 0.2, source = "no published step of this part is fitted")
  attention_forward = about(0.50, within = 0.25, source = "no published step of this part is fitted")
  attention_backward = about(0.40, within = 0.25, source = "no published step of this part is fitted")
  fa2_forward = about(0.16, within = 0.3, source = "an H100's kernel on a faster part")
  fa2_backward = about(0.15, within = 0.3, source = "an H100's kernel on a faster part")
}

device "l40s" {
  description = "NVIDIA L40S 48 GB"
  source = "NVIDIA L40S data sheet"
  units = 142
  peak_f32 = 91.6TFLOP/s
  peak_tf32 = 183TFLOP/s
  peak_f16 = 362TFLOP/s
  peak_f8 = 733TFLOP/s
  capacity = 48GiB
  bandwidth = 864GB/s
  cache = 96MiB
  intra = link(25GB/s, 5us)
  inter = link(12.5GB/s, 5us)
  host = 25GB/s
  node = 8
  product = about(0.65, within = 0.2, source = "no published step of this part is fitted")
}

device "mi300x" {
  description = "AMD Instinct MI300X 192 GB; for predictions, no code is made for it"
  source = "AMD MI300X data sheet"
  units = 304
  peak_f32 = 163.4TFLOP/s
  peak_tf32 = 653.7TFLOP/s
  peak_f16 = 1307TFLOP/s
  peak_f8 = 2614TFLOP/s
  capacity = 192GB
  bandwidth = 5300GB/s
  cache = 256MiB
  intra = link(448GB/s, 3us)
  inter = link(50GB/s, 5us)
  host = 55GB/s
  node = 8
  product = about(0.50, within = 0.25, source = "no published step of this part is fitted")
  attention_forward = about(0.35, within = 0.3, source = "no published step of this part is fitted")
  attention_backward = about(0.25, within = 0.3, source = "no published step of this part is fitted")
}
