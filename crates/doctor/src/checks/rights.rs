//! What this process may do with the library's files. The caller tried it, as the server does at its start.

use crate::visit::Visit;

pub(crate) fn check(visit: &mut Visit<'_>) {
    for refused in std::mem::take(&mut visit.evidence.refused) {
        visit.found(refused);
    }
}
