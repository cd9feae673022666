"""Every name that is logged or monitored, once."""

TRAIN_LOSS = "train/loss"
TRAIN_CLASS_LOSS = "train/class_loss"
TRAIN_LEAK_LOSS = "train/leak_loss"
VAL_LOSS = "val/loss"
VAL_CLASS_LOSS = "val/class_loss"
VAL_LEAK_LOSS = "val/leak_loss"
VAL_F1 = "val/recording_f1"
VAL_AUROC = "val/recording_auroc"
VAL_RANK = "val/rank"  # recording F1, ties broken by the validation loss: what a check is chosen by
VAL_THRESHOLD = "val/threshold"
VAL_CONFUSION = ("val/tn", "val/fp", "val/fn", "val/tp")

BEST_F1 = "best_f1"
BEST_LOSS = "best_loss"
LAST = "last"
CHECKPOINTS = "checkpoints"
