"""What kind of work a device kernel does, told by its name.

Runtimes and vendors name the same work differently; what two of them can be compared by is its
category. Names lie in known ways: `lambda` is not the optimizer LAMB, `convert` is no convolution,
`all_gather` is no gather, and communication is much more than `nccl`. The rows are tried in order,
the first that matches decides, and each says what it must come before.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

# Real names have up to 3,000 characters; a name of megabytes would be searched for seconds.
LONGEST_READ = 8192

Direction = Literal["h2d", "d2h", "d2d"]

# Names are compared in lower case.
_ROWS = (
    # What profilers call transfers and fills: always at the start, unlike `memcpy` inside a kernel.
    # ROCm's runtime does some of both with kernels of its own.
    (
        "memcpy",
        (
            r"^(\[?cuda |\[?hip )?mem(ory)?_?cpy|^hip_?memcpy|^copy(host|device)to"
            r"|^__amd_rocclr_(copy|read|write)"
        ),
    ),
    ("memset", r"^(\[?cuda |\[?hip )?mem(ory)?_?set|^hip_?memset|^fillbuffer|^__amd_rocclr_fill"),
    # Before all others: its names contain `reduce`, `gather` and `scatter`.
    (
        "comm",
        (
            r"[nr]ccl|nvshmem|mscclpp|deep_?ep|\bep::(internode|intranode|low_latency)"
            r"|cross_device_reduce|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter"
            r"|all[_-]?to[_-]?all|collective[_-]permute|send_?recv"
        ),
    ),
    # Before gemm and softmax, of which it is made. FlashInfer does much else; AOTriton names the
    # parts of the backward pass alone.
    (
        "attention",
        (
            r"fmha|flash::|flash_?(fwd|bwd|attn|mla|decod|splitkv)|attention|(^|[^a-z])attn"
            r"|paged_?decode|(prefill|decode)with(paged|ragged)?kv"
            r"|(^|[^a-z])bwd_(kernel_(fuse|dk_dv|dq)|preprocess)"
        ),
    ),
    # Before elementwise: an optimizer's functor runs in a template that has another name.
    (
        "optimizer",
        (
            r"multi_?tensor_?apply|aclnnforeach|fused_?(adam|sgd|lamb|adagrad)|adamw?(_|functor|kernel|math)"
            r"|sgd(_|functor|kernel|math)|(^|[^a-z])(lamb|lion|muon|adafactor)(_|functor|kernel|$)"
        ),
    ),
    # Before gemm: it is done by implicit GEMMs. `conv` may not be the head of `convert`.
    (
        "conv",
        (
            r"conv(?!ert)|implicit_?gemm|[dw]grad_|fprop_|winograd|scudnn|(cask|cutlass)_cudnn|cudnn::cnn"
            r"|igemm_(fwd|bwd|wrw)|bwd_(weight|data)|nchwtonhwc|nhwctonchw|im(2|2d2|3d2)col"
            r"|col2im"
        ),
    ),
    # Before reduce: `batch_norm_reduce_statistics`. The norm of a vector is no normalisation.
    (
        "norm",
        (
            r"(batch|layer|group|instance|rms)_?norm|(^|[^a-z])(ln|bn)_(fwd|bwd|fw|bw)"
            r"|gammabetabackward|gradgammabeta|rowwisemoments|cucomputegradinput"
        ),
    ),
    # FBGEMM is a library of embeddings, and `cutlass` may stand among the types of arguments.
    (
        "gemm",
        (
            r"(?<!fb)gemm|gemv|cutlass(::kernel|::device_kernel|_\d)|cublas|nvjet|^cijk_"
            r"|(^|[^a-z])bmm_|matmul|splitkreduce|dot_kernel|^dot([._]|$)"
        ),
    ),
    # Before copy and embedding: what it does is arithmetic, or a write into a cache.
    ("elementwise", r"rotary|swiglu|cast_(to_fp8|back)|fp8_quant|quantize_with"),
    ("copy", r"reshape_and_cache"),
    # Before reduce, elementwise and copy, in whose templates indexing runs. A top-k is a selection.
    (
        "embedding",
        r"embedding|embs_kernel|bounds_check_indices|(?<!with_)index|scatter|gather(?!topk)",
    ),
    ("softmax_loss", r"softmax|cross_?entropy|nll_?loss|nllcriterion|loss_"),
    # Pooling reduces windows.
    (
        "reduce",
        r"reduce|topk|radix_?sort|devicescan|lookback_scan|(max|avg|average)_?pool|mlopooling",
    ),
    # Before elementwise, in whose templates ATen's copies run.
    ("copy", r"copy|transpose|transdata|tensormove|catarray|permute"),
    ("elementwise", r"elementwise|triton_poi|fill|[gs]elu|silu|relu|sigmoid|dropout"),
)
# Operators of the host have short names, which the rows of kernels do not know.
_OPERATOR_ROWS = (
    (
        "comm",
        (
            r"^(c10d|nccl|gloo|record_param_comms)|all_?reduce|all_?gather|reduce_?scatter"
            r"|all_?(to|2)_?all"
        ),
    ),
    ("attention", r"attention|_attn"),
    ("optimizer", r"_fused_(adam|sgd|lamb|adagrad)|_foreach_|^optimizer"),
    ("conv", r"conv(?!ert)"),
    # The norm of a vector, as of gradients that are clipped, is a sum.
    ("norm", r"(?<!vector)(?<!matrix)_norm(_|$|backward)|(?<!vector)(?<!matrix)normbackward"),
    ("gemm", r"(^|::|_)(add|badd)?(b|m)?mm(_|$)|matmul|linear|einsum|addmv|^aten::(mv|dot|ger)$"),
    ("softmax_loss", r"softmax|cross_entropy|nll_loss|_loss(_|$)"),
    ("embedding", r"embedding|index|gather|scatter"),
    ("copy", r"copy|::(_?to|clone|contiguous|cat|stack|_to_copy|transpose|permute)$"),
    (
        "reduce",
        (
            r"::(sum|mean|max|min|amax|amin|argmax|topk|sort|cumsum|norm)(_|$)|pool"
            r"|(vector|matrix)_?norm"
        ),
    ),
    (
        "elementwise",
        (
            r"::_?(add|sub|mul|div|pow|neg|exp|log|sqrt|rsqrt|tanh|abs|where|clamp|masked_fill|fill"
            r"|zero|bernoulli|silu|relu|sigmoid|threshold)(_|$)|elu|dropout"
        ),
    ),
)
_OPERATORS = tuple((category, re.compile(pattern)) for category, pattern in _OPERATOR_ROWS)
_COMPILED = tuple((category, re.compile(pattern)) for category, pattern in _ROWS)

_DIRECTIONS: tuple[tuple[Direction, re.Pattern[str]], ...] = (
    ("h2d", re.compile(r"h(ost)?_?(to|2|->)_?d(ev|$|[^a-z])|host ?-> ?device|hosttodevice")),
    ("d2h", re.compile(r"d(evice)?_?(to|2|->)_?h(ost|$|[^a-z])|device ?-> ?host|devicetohost")),
    ("d2d", re.compile(r"[dp](evice|eer)?_?(to|2|->)_?[dp](ev|eer|$|[^a-z])|device ?-> ?device")),
)


@lru_cache(maxsize=65536)
def category_of(kernel_name: str) -> str:
    """The category of a kernel, transfer or fill by its name; `other` where no row knows it."""
    name = kernel_name[:LONGEST_READ].lower()
    for category, pattern in _COMPILED:
        if pattern.search(name):
            return category
    return "other"


@lru_cache(maxsize=4096)
def category_of_operator(name: str) -> str:
    """The category of an operator of the host, as `aten::addmm` is a product of matrices."""
    lower = name[:LONGEST_READ].lower()
    for category, pattern in _OPERATORS:
        if pattern.search(lower):
            return category
    return category_of(name)


@lru_cache(maxsize=4096)
def memcpy_direction(name: str) -> Direction | None:
    """Which way a transfer goes, as `Memcpy HtoD (Pinned -> Device)` says; None if it does not."""
    lower = name[:LONGEST_READ].lower()
    for direction, pattern in _DIRECTIONS:
        if pattern.search(lower):
            return direction
    return None
