"""Makes a Llama of half a megabyte whose weights are random: `random_model.py FOLDER`."""
# ruff: noqa: S106 - tokens of a tokenizer

import sys

import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"

torch.manual_seed(0)
characters = [*map(chr, range(32, 127)), "\n"]
vocabulary = {
    character: number for number, character in enumerate(["<s>", "</s>", "<unk>", *characters])
}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>")),
    bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>",
)  # fmt: skip
tokenizer.chat_template = TEMPLATE
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
)
model.generation_config.max_new_tokens = 40
model.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
