//! The CPUs that this process may use, and their features.

use crate::root::Root;

/// More CPUs than any machine has: bounds the allocation for parsing a list.
const CPUS_MAX: u32 = 1 << 16;

/// Instructions that determine how fast records are sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuFeatures {
    /// AES in hardware, on x86-64 and on aarch64.
    pub aes: bool,
    /// x86-64: AES on several blocks at once, and the multiplication that goes with it (VAES, VPCLMULQDQ).
    pub vaes: bool,
    /// x86-64: AVX-512, with the parts that fast AES-GCM uses (F, BW, VL).
    pub avx512: bool,
}

impl CpuFeatures {
    /// Reads them from /proc/cpuinfo, where each CPU has a paragraph that begins with its number.
    pub(crate) fn probe(root: &Root, cpu: u32) -> Self {
        root.read("proc/cpuinfo").map(|text| Self::parse(&text, cpu)).unwrap_or_default()
    }

    fn parse(text: &str, cpu: u32) -> Self {
        let paragraph =
            text.split("\n\n").find(|paragraph| number(paragraph) == Some(cpu)).unwrap_or("");
        // "flags" on x86-64, "Features" on aarch64.
        let flags = value(paragraph, "flags").or(value(paragraph, "Features")).unwrap_or("");
        let has = |name: &str| flags.split(' ').any(|flag| flag == name);
        Self {
            aes: has("aes"),
            vaes: has("vaes") && has("vpclmulqdq"),
            avx512: ["avx512f", "avx512bw", "avx512vl"].into_iter().all(has),
        }
    }
}

/// The CPU's model name, with family and model numbers where the kernel reports them: virtual machines often report a
/// name that covers several generations ("AMD EPYC"). aarch64 kernels report no name.
pub(crate) fn model(root: &Root, cpu: u32) -> Option<String> {
    model_in(&root.read("proc/cpuinfo")?, cpu)
}

fn model_in(text: &str, cpu: u32) -> Option<String> {
    let paragraph = text.split("\n\n").find(|paragraph| number(paragraph) == Some(cpu))?;
    let name = value(paragraph, "model name").filter(|name| !name.is_empty())?;
    let numbers = value(paragraph, "cpu family").zip(value(paragraph, "model"));
    Some(numbers.map_or_else(
        || name.to_owned(),
        |(family, model)| format!("{name} (family {family}, model {model})"),
    ))
}

fn number(paragraph: &str) -> Option<u32> {
    value(paragraph, "processor")?.parse().ok()
}

fn value<'a>(paragraph: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = paragraph.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// The CPUs that this thread may run on; never an empty list.
pub(crate) fn allowed(root: &Root) -> Option<Vec<u32>> {
    let status = root.read("proc/thread-self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    parse_list(list)
}

/// Parses the kernel's notation for a set of CPUs: `0-3,8,10-11`. `None` for an empty set and for anything else.
pub fn parse_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list(" 0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
    }

    #[test]
    fn what_is_not_a_list_of_cpus_is_refused() {
        for list in ["", "a", "3-1", "1,", "0-4000000000", "-1"] {
            assert_eq!(parse_list(list), None, "{list}");
        }
    }

    #[test]
    fn features_are_those_of_the_cpu_asked_for() {
        let text = "processor\t: 0\nflags\t\t: fpu aes\n\nprocessor\t: 1\nflags\t\t: aes vaes vpclmulqdq avx512f avx512bw avx512vl\n";
        assert_eq!(
            CpuFeatures::parse(text, 0),
            CpuFeatures { aes: true, vaes: false, avx512: false }
        );
        assert_eq!(
            CpuFeatures::parse(text, 1),
            CpuFeatures { aes: true, vaes: true, avx512: true }
        );
        assert_eq!(CpuFeatures::parse(text, 2), CpuFeatures::default());
    }

    #[test]
    fn the_model_is_its_name_with_the_numbers_that_tell_generations_apart() {
        let text = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: X\n";
        assert_eq!(model_in(text, 0).as_deref(), Some("AMD EPYC (family 26, model 2)"));
        assert_eq!(model_in(text, 1).as_deref(), Some("X"));
        assert_eq!(model_in(text, 2), None);
        assert_eq!(model_in("processor\t: 0\nFeatures\t: fp\n", 0), None);
    }

    #[test]
    fn aarch64_calls_its_flags_features() {
        let text = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd aes pmull\n";
        assert!(CpuFeatures::parse(text, 0).aes);
    }
}
