#![no_std]
//! The law.
