"""Stands in for torchvision, which FedLab imports for image sets that no workload here has.

The published torchvision does not load beside a build of torch for CPUs.
"""

transforms = None
