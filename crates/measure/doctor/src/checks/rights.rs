//! The rights of this process to the library's files. The caller tried them, as the server does at startup.

use crate::visit::Visit;

pub(crate) fn check(visit: &mut Visit<'_>) {
    for refused in std::mem::take(&mut visit.evidence.refused) {
        visit.found(refused);
    }
}
