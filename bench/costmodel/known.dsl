# SPDX-License-Identifier: Apache-2.0
# The devices and stacks of the library that published rows name.
cluster one { gpus = 8; gpu = "a100-80g"; stack = megatron_2021 }
cluster two { gpus = 8; gpu = "a100-80g"; stack = megatron_2022 }
cluster three { gpus = 8; gpu = "a100-80g"; stack = zero_bubble }
cluster four { gpus = 8; gpu = "h100-500w"; stack = torchtitan_eager }
cluster five { gpus = 8; gpu = "h100-500w"; stack = torchtitan_compiled }
cluster six { gpus = 8; gpu = "h100-500w"; stack = torchtitan_async }
