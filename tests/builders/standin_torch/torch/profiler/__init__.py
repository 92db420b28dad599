"""The profiler."""

from torch.profiler.profiler import ProfilerAction, profile, supported_activities
