//! The cgroups that the programs know, for a daemon that takes over.

use super::Governor;

impl Governor {
    /// Ids of the cgroups in the kernel.
    pub fn cgroups(&self) -> Vec<u64> {
        let ids = self.maps.cgroups.keys().filter_map(Result::ok);
        ids.map(|id| id.0).collect()
    }
}
