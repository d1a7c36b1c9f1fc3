# SPDX-License-Identifier: Apache-2.0
# What published training runs did that plans of this compiler do not do: each flag says from where it is known
# (`dtc explain stack` lists them). `cluster { stack = megatron_2021 }` predicts a step as that software would run it;
# nothing but the prediction changes. `ours`, where nothing is written, has no flag.

stack megatron_2021 {
  description = "Megatron-LM as in the SC21 paper (arXiv 2104.04473)"
  scores = "section 4.2: a fused kernel scales, masks and normalises scores, which are in memory"
  masked_tiles = "the products of its attention are whole"
  dropout_masks = "arXiv 2205.05198, section 4.1: masks are stored"
  whole_recompute = "a layer is a checkpoint; its forward pass is run again"
  gradient_pass = "autograd adds the gradients of micro-batches up"
  slow_norm = "apex's layer norm; the persistent kernel came in 2022"
  late_gradients = "one all-reduce behind the last micro-batch"
  waited_messages = "send_forward_recv_backward and its like wait for both"
  host_steps = "train_step in Python reads whether gradients overflowed, their norm and the loss"
}

stack megatron_2022 {
  description = "Megatron-LM as in the paper on recomputation (arXiv 2205.05198)"
  scores = "section 4.1: scores and their softmax are among what is stored"
  masked_tiles = "the products of its attention are whole"
  dropout_masks = "section 4.1: masks are stored"
  whole_recompute = "full recomputation runs the forward pass of a layer again"
  tensor_overlap = "its Table 4: backward takes 11.9 ms; 12.6 if no collective ran beside the weight gradients"
  late_gradients = "section 6.3: data-parallel all-reduces are not overlapped"
  waited_messages = "send_forward_recv_backward and its like wait for both"
  host_steps = "train_step in Python reads whether gradients overflowed, their norm and the loss"
}

stack zero_bubble {
  description = "the zero bubble paper's Megatron-LM (arXiv 2401.10241)"
  scores = "its peaks of memory hold attention that is written out"
  masked_tiles = "the products of its attention are whole"
  dropout_masks = "arXiv 2205.05198, section 4.1: masks are stored"
  late_gradients = "gradients are there when the last micro-batch ends"
  waited_messages = "Table 5 prices both directions"
  host_steps = "train_step in Python reads whether gradients overflowed, their norm and the loss"
}

stack torchtitan_eager {
  description = "torchtitan without torch.compile (arXiv 2410.06511)"
  fa2 = "scaled_dot_product_attention takes FlashAttention 2 there"
  second_products = "selective recomputation by op saves every second matrix product"
  whole_recompute = "full recomputation runs a block again"
  eager = "each operation is a kernel"
  bucket_copies = "FSDP2 splits what it gathered by a copy, and concatenates gradients in f32"
  host_steps = "its train loop in Python clips gradients and reads their norm and the loss"
}

stack torchtitan_compiled {
  description = "torchtitan with torch.compile (arXiv 2410.06511)"
  fa2 = "scaled_dot_product_attention takes FlashAttention 2 there"
  second_products = "selective recomputation by op saves every second matrix product"
  whole_recompute = "full recomputation runs a block again"
  bucket_copies = "FSDP2 splits what it gathered by a copy, and concatenates gradients in f32"
  host_steps = "its train loop in Python clips gradients and reads their norm and the loss"
}

stack torchtitan_async {
  description = "torchtitan with torch.compile and asynchronous tensor parallelism"
  fa2 = "scaled_dot_product_attention takes FlashAttention 2 there"
  second_products = "selective recomputation by op saves every second matrix product"
  whole_recompute = "full recomputation runs a block again"
  async_tensor = "its rows say async TP"
  bucket_copies = "FSDP2 splits what it gathered by a copy, and concatenates gradients in f32"
  host_steps = "its train loop in Python clips gradients and reads their norm and the loss"
}
