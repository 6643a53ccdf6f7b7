//! appliance
