//! Hides the vector AES instructions from the cipher library, which then encrypts as on CPUs of 2017.

/// The environment variable that aws-lc reads when it detects the CPU's features.
pub(crate) const VARIABLE: &str = "OPENSSL_ia32cap";

/// AVX-512 F, DQ, IFMA, CD, BW and VL, in EBX of CPUID's leaf 7.
const AVX512: u64 = 1 << 16 | 1 << 17 | 1 << 21 | 1 << 28 | 1 << 30 | 1 << 31;

/// VAES and VPCLMULQDQ, in ECX of the same leaf.
const VECTOR_AES: u64 = (1 << 9 | 1 << 10) << 32;

/// The variable's value, in the format of aws-lc's `cpu_intel.c`: two 64-bit values, where a `~` clears the bits that follow. The first
/// stays unchanged. The second, EBX and ECX of leaf 7, loses these bits.
pub(crate) fn value() -> String {
    format!("~0x0:~{:#x}", AVX512 | VECTOR_AES)
}

/// Why there is nothing to hide on this machine.
pub(crate) fn obstacle() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        let has = std::arch::is_x86_feature_detected!("vaes")
            && std::arch::is_x86_feature_detected!("vpclmulqdq");
        (!has).then(|| "this CPU has no vector AES (VAES, VPCLMULQDQ)".into())
    }
    #[cfg(not(target_arch = "x86_64"))]
    Some("only x86-64 CPUs have vector AES instructions to switch off".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_takes_away_what_it_names_and_nothing_else() {
        assert_eq!(value(), "~0x0:~0x600d0230000");
        assert_eq!((AVX512 | VECTOR_AES).count_ones(), 8);
    }
}
