//! The atomic word the law is written over.

/// A 64-bit word shared by every CPU.
///
/// All operations are sequentially consistent. Weaker orders are not offered:
/// a relaxed fetch-add whose result is used is miscompiled for BPF (LLVM
/// issue 210280), and the law never runs often enough to need them.
pub trait Cell: Default {
    /// The current value.
    fn load(&self) -> u64;
    /// Overwrites the value. Only for words whose last writer may win.
    fn store(&self, value: u64);
    /// Replaces `current` by `new`; on failure returns what was there.
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
    /// Adds, wrapping; returns the value before.
    fn add(&self, amount: u64) -> u64;
    /// Subtracts, wrapping; returns the value before.
    #[inline(always)]
    fn sub(&self, amount: u64) -> u64 {
        self.add(amount.wrapping_neg())
    }
    /// Raises the value to at least `value`. Gives up after a few lost races:
    /// a peak that is one sample short decides nothing.
    #[inline(always)]
    fn raise(&self, value: u64) {
        for _ in 0..3 {
            let seen = self.load();
            if seen >= value || self.compare_exchange(seen, value).is_ok() {
                return;
            }
        }
    }
}

#[cfg(target_has_atomic = "64")]
impl Cell for core::sync::atomic::AtomicU64 {
    fn load(&self) -> u64 {
        self.load(core::sync::atomic::Ordering::SeqCst)
    }
    fn store(&self, value: u64) {
        self.store(value, core::sync::atomic::Ordering::SeqCst);
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        use core::sync::atomic::Ordering::SeqCst;
        self.compare_exchange(current, new, SeqCst, SeqCst)
    }
    fn add(&self, amount: u64) -> u64 {
        self.fetch_add(amount, core::sync::atomic::Ordering::SeqCst)
    }
}
